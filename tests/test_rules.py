"""Rule sets: dispatch on types, guards, conflicts; the engine knows nothing of terms, so integers serve."""

import sys

import pytest

import fubini as fb
from fubini.base.interpretations import interpret, no_rule
from fubini.base.rules import RuleConflict
from fubini.errors import NoRule


class Animal:
    """A family of types to dispatch on."""


class Dog(Animal):
    pass


class Puppy(Dog):
    pass


class Cat(Animal):
    pass


def rule_set() -> fb.RuleSet:
    return fb.RuleSet("test", head="meet")


def chosen(rules: fb.RuleSet, *args: object) -> str | None:
    rule = rules.find(args)
    return None if rule is None else rule.name


def test_the_annotations_are_the_signature() -> None:
    """Unions, Any and unannotated generics count; the name is the function's, the equation its docstring."""
    rules = rule_set()

    @rules.rule
    def meet(a: Dog | Cat, b: int) -> str:
        """woof"""
        return "met"

    assert meet(Dog(), 1) == "met"
    (rule,) = rules
    assert repr(rule) == "meet(Dog | Cat, int)"
    assert rule.equation == "woof"
    assert [chosen(rules, animal(), 1) for animal in (Dog, Cat, Puppy, Animal)] == ["meet", "meet", "meet", None]
    assert chosen(rules, Dog()) is None
    assert chosen(rules, Dog(), "1") is None


def test_the_most_specific_rule_wins() -> None:
    """Whatever the order of registration."""
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        rules = rule_set()

        def animal(a: Animal) -> None: ...
        def dog(a: Dog) -> None: ...
        def puppy(a: Puppy) -> None: ...

        for position in order:
            rules.rule([animal, dog, puppy][position])
        found = [chosen(rules, kind()) for kind in (Animal, Dog, Puppy, Cat)]
        assert found == ["animal", "dog", "puppy", "animal"]
        assert not rules.conflicts()


def test_a_rule_registered_later_is_seen() -> None:
    """Also after the same types have been looked up."""
    rules = rule_set()

    @rules.rule
    def animal(a: Animal) -> None: ...

    assert chosen(rules, Dog()) == "animal"

    @rules.rule
    def dog(a: Dog) -> None: ...

    assert chosen(rules, Dog()) == "dog"


def test_guards() -> None:
    """A guarded rule comes before its unguarded twin where the guard holds, and a refused one gives way."""
    rules = rule_set()

    @rules.rule
    def number(n: int) -> None: ...

    @rules.rule(when=lambda n: n % 2 == 0)
    def even(n: int) -> None: ...

    @rules.rule(when=lambda n: True)
    def anything(n: object) -> None: ...

    assert [chosen(rules, value) for value in (1, 2, "a")] == ["number", "even", "anything"]
    assert not rules.conflicts()


def test_duplicates_raise_at_registration() -> None:
    rules = rule_set()

    @rules.rule
    def meet(a: Dog) -> None: ...

    def same_signature(a: Dog) -> None: ...

    def same_name(a: Cat) -> None: ...

    same_name.__name__ = "meet"
    for duplicate in (meet, same_signature, same_name):
        with pytest.raises(RuleConflict, match="meet"):
            rules.rule(duplicate)
    assert [rule.name for rule in rules] == ["meet"]


def pairs(rules: fb.RuleSet) -> list[set[str]]:
    return [{first.name, second.name} for first, second in rules.conflicts()]


def test_crossing_signatures_conflict_until_resolved() -> None:
    """(Dog, Animal) and (Animal, Dog) both fit two dogs; a third rule for these settles it."""
    rules = rule_set()

    @rules.rule
    def left(a: Dog, b: Animal) -> None: ...

    @rules.rule
    def right(a: Animal, b: Dog) -> None: ...

    assert pairs(rules) == [{"left", "right"}]

    @rules.rule
    def both(a: Dog, b: Dog) -> None: ...

    assert not rules.conflicts()
    assert chosen(rules, Dog(), Puppy()) == "both"


def test_two_guards_on_one_signature_conflict_unless_marked() -> None:
    rules = rule_set()

    @rules.rule(when=lambda n: n > 0)
    def positive(n: int) -> None: ...

    @rules.rule(when=lambda n: n % 2 == 0)
    def even(n: int) -> None: ...

    @rules.rule(when=lambda n: n % 3 == 0, overlaps=("positive", "even"))
    def triple(n: int) -> None: ...

    assert pairs(rules) == [{"positive", "even"}]


def test_overlapping_unions_conflict() -> None:
    """Dog | Cat and Cat | int both fit a cat; neither is more specific."""
    rules = rule_set()

    @rules.rule
    def first(a: Dog | Cat) -> None: ...

    @rules.rule
    def second(a: Cat | int) -> None: ...

    assert pairs(rules) == [{"first", "second"}]


def test_unrelated_rules_do_not_conflict() -> None:
    def dog(a: Dog) -> None: ...
    def cat(a: Cat) -> None: ...
    def two(a: Dog, b: Dog) -> None: ...

    rules = rule_set()
    for function in (dog, cat, two):
        rules.rule(function)
    assert not rules.conflicts()


def library_rule_sets() -> dict[str, fb.RuleSet]:
    """Every rule set that a module of fubini has made."""
    modules = [module for name, module in sorted(sys.modules.items()) if name.split(".")[0] == "fubini"]
    found = [thing for module in modules for thing in vars(module).values() if isinstance(thing, fb.RuleSet)]
    return {rules.name: rules for rules in found}


def test_every_head_has_rules() -> None:
    heads = [head for head in vars(fb.heads).values() if isinstance(head, fb.heads.Head)]
    assert fb.heads.SUM in heads and fb.heads.CONTRACT in heads
    for head in heads:
        assert any(len(list(rules)) for rules in fb.exact.rule_sets(head))


@pytest.mark.parametrize("name", library_rule_sets())
def test_the_library_has_no_conflicts(name: str) -> None:
    rules = library_rule_sets()[name]
    assert not rules.conflicts()


@pytest.mark.parametrize("name", library_rule_sets())
def test_every_rule_states_its_equation(name: str) -> None:
    assert [rule.name for rule in library_rule_sets()[name] if not rule.equation] == []


def test_no_rule_lists_the_nearest_and_why_each_was_refused() -> None:
    rules = fb.RuleSet("mine", head="meet")

    @rules.rule
    def meet_cats(a: Cat, b: Cat) -> None: ...

    @rules.rule(when=lambda a, b: False)
    def meet_strangers(a: Dog, b: int) -> None: ...

    @rules.rule
    def greet(a: Dog) -> None: ...

    mine = fb.Interpretation("mine", (rules,))
    message = str(no_rule(mine, "meet", (Dog(), 3)))
    assert message.index("meet_strangers(Dog, int): its side condition does not hold") < message.index("meet_cats")
    assert "meet_cats(Cat, Cat): it takes Cat where Dog was given" in message
    assert "greet" not in message
    assert "under mine" in message and "meet(Dog, int)" in message


def test_an_operation_without_a_rule_raises() -> None:
    """The error names what was asked, and offers to record it."""
    x = fb.Table([1.0, 2.0], ("x",))
    with pytest.raises(NoRule, match=r"power_table.*side condition") as raised:
        _ = x ** fb.Variable("a", fb.Real)
    message = str(raised.value)
    assert "Table(x: Bint[2])" in message and "under exact" in message and "fb.lazy" in message


def test_interpret_is_open_to_new_heads() -> None:
    """Ours get no privilege over a user's."""
    rules = fb.RuleSet("doubles", head="double")

    @rules.rule
    def double_number(n: int) -> int:
        """2n"""
        return 2 * n

    with fb.Interpretation("doubling", (rules,), base=fb.exact):
        assert interpret("double", 21) == 42
        with pytest.raises(NoRule, match="double_number"):
            interpret("double", "a")
