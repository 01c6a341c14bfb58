"""Representations of factors, one file each, their numerics, and the rules that say what each operation does."""

from fubini.factors import delta_rules as delta_rules
from fubini.factors import diagram_carry as diagram_carry
from fubini.factors import diagram_choice as diagram_choice
from fubini.factors import diagram_contraction as diagram_contraction
from fubini.factors import diagram_rules as diagram_rules
from fubini.factors import fallbacks as fallbacks
from fubini.factors import finite_rules as finite_rules
from fubini.factors import gaussian_carry as gaussian_carry
from fubini.factors import gaussian_choice as gaussian_choice
from fubini.factors import gaussian_rules as gaussian_rules
from fubini.factors import mixture_choice as mixture_choice
from fubini.factors import mixture_rules as mixture_rules
from fubini.factors import open_choice as open_choice
from fubini.factors import sparse_carry as sparse_carry
from fubini.factors import sparse_choice as sparse_choice
from fubini.factors import sparse_rules as sparse_rules
from fubini.factors import table_carry as table_carry
from fubini.factors import table_choice as table_choice
from fubini.factors import table_rules as table_rules
from fubini.factors import train_carry as train_carry
from fubini.factors import train_choice as train_choice
from fubini.factors import train_plates as train_plates
from fubini.factors import train_rules as train_rules
from fubini.factors import weight_rules as weight_rules
