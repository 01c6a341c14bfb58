"""Representations of factors, one file each, their numerics, and the rules that say what each operation does."""

from fubini.factors import circuit_choice as circuit_choice
from fubini.factors import circuit_divergence as circuit_divergence
from fubini.factors import circuit_questions as circuit_questions
from fubini.factors import circuit_rules as circuit_rules
from fubini.factors import circuit_tables as circuit_tables
from fubini.factors import delta_rules as delta_rules
from fubini.factors import elements as elements
from fubini.factors import expectations as expectations
from fubini.factors import fallbacks as fallbacks
from fubini.factors import gaussian_carry as gaussian_carry
from fubini.factors import gaussian_choice as gaussian_choice
from fubini.factors import gaussian_properness as gaussian_properness
from fubini.factors import gaussian_rules as gaussian_rules
from fubini.factors import gaussian_tilted as gaussian_tilted
from fubini.factors import mixture_choice as mixture_choice
from fubini.factors import mixture_moments as mixture_moments
from fubini.factors import mixture_rules as mixture_rules
from fubini.factors import open_choice as open_choice
from fubini.factors import piecewise_rules as piecewise_rules
from fubini.factors import properness as properness
from fubini.factors import samples as samples
from fubini.factors import table_carry as table_carry
from fubini.factors import table_choice as table_choice
from fubini.factors import table_rules as table_rules
from fubini.factors import table_semirings as table_semirings
from fubini.factors import weight_rules as weight_rules
