"""What one device, many devices and files hold: models of more rows than memory, over meshes and over processes."""
