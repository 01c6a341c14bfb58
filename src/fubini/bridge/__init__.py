"""Products of densities that no rule of factors joins: read into index notation, integrated there, factors again."""
