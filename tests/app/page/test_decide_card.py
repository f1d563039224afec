"""The card Decide of the tab Compare in a browser: logits, sliders, costs, and what an export keeps."""

import shutil
from pathlib import Path

import pytest
from decided_runs import decided_runs
from driving import LONG
from playwright.sync_api import expect

from frostbench.benchmarks.decisions.decision import Decision
from frostbench.benchmarks.decisions.figures import figures
from frostbench.benchmarks.decisions.head_numbers import read_numbers
from frostbench.benchmarks.decisions.kept import keep, kept_decision
from frostbench.benchmarks.decisions.live import answers
from frostbench.benchmarks.decisions.stored_logits import read_logits
from frostbench.benchmarks.runs.record import best_of
from frostbench.benchmarks.runs.store import read_outcomes, read_record, run_folder

pytestmark = pytest.mark.slow

KINDS = {"vector": {"posthoc.calibration.kind": "vector"}}


@pytest.fixture(scope="module")
def runs(mislabelled, tmp_path_factory):
    """A folder with a cache and two settings of two seeds, and the run keys by setting."""
    folder = tmp_path_factory.mktemp("decide_card")
    shutil.copytree(mislabelled, folder / "wrong")
    return folder, decided_runs(folder / "wrong", folder / "mine" / "results", seeds=(0, 1), kinds=KINDS)


@pytest.fixture(scope="module")
def server(runs, serve):
    with serve(runs[0]) as started:
        yield started


@pytest.fixture
def store(runs):
    store = runs[0] / "mine" / "results"
    yield store
    for keys in runs[1].values():
        for key in keys:
            keep(store, key, Decision())


def best(store, keys):
    return best_of([read_record(store, key) for key in keys]).key


def side_of(page, name):
    """Return A or B, whichever side has a setting; the address names settings by their id, so ask the page."""
    label = page.get_by_label("Setting B").locator("option:checked").inner_text()
    return "b" if ("vector" in label.lower()) == (name == "vector") else "a"


@pytest.fixture
def card(browse):
    """The card, with its logits computed."""
    return opened(browse("compare"))


def opened(page):
    card = page.locator(".decide")
    page.locator(".decide[data-state=ready], .decide[data-state=missing]").wait_for(timeout=LONG)
    if card.get_attribute("data-state") == "missing":
        page.get_by_role("button", name="Compute the logits").click()
        expect(page.locator("#live")).to_have_text("The logits are in the store.", timeout=LONG)
    ready(card)
    return card


def ready(card):
    expect(card).to_have_attribute("data-state", "ready", timeout=LONG)


def figure(card, name):
    return card.locator(f"[data-figure={name}] td").all_inner_texts()


def wanted(store, keys, decision, role="select"):
    """Return the figures of a setting's best run under a decision."""
    key = best(store, keys)
    head, stored = read_numbers(run_folder(store, key) / "head"), read_logits(store, key)
    labels = read_outcomes(store, key, role)["label"].to_numpy()
    return figures(answers(stored, role, labels, head, decision), labels, head, decision.rule)


def number_at(card, side, name):
    """Return the decided figure of a side as shown, without its change."""
    return figure(card, name)[1 if side == "a" else 3].split()[0]


def test_logits_are_computed_once_and_then_read(runs, browse, store):
    for key in (key for keys in runs[1].values() for key in keys):
        (run_folder(store, key) / "logits.safetensors").unlink(missing_ok=True)
    page = browse("compare")
    card = page.locator(".decide[data-state=missing]")
    expect(card).to_contain_text("The logits of A and B are not in the store yet.")
    opened(page)
    for keys in runs[1].values():
        assert read_logits(store, best(store, keys)).rows.keys() == {"select", "test"}
    page.reload()
    ready(page.locator(".decide"))


def test_sliders_recompute_the_figures(card, runs, store):
    page = card.page
    side = side_of(page, "plain")
    before = figure(card, "nll")
    page.get_by_role("slider", name="Temperature").fill("1")
    page.get_by_role("slider", name="No answer below").fill("0.6")
    ready(card)
    found = wanted(store, runs[1]["plain"], Decision(temperature=2, abstain_below=0.6))
    assert 0 < found["coverage"] < 1
    assert number_at(card, side, "nll") == f"{found['nll']:.3f}"
    assert number_at(card, side, "coverage") == f"{100 * found['coverage']:.1f}"
    assert number_at(card, side, "macro_f1_fg") == f"{100 * found['macro_f1_fg']:.1f}"
    assert figure(card, "nll")[0::2] == before[0::2]
    expect(page.locator("#live")).to_contain_text(f"{100 * found['coverage']:.1f} % answered")
    page.get_by_role("button", name="As it is").click()
    ready(card)
    assert figure(card, "nll") == before
    expect(page.get_by_role("slider", name="Temperature")).to_have_value("0")


def test_only_the_newest_answer_counts(card, runs, store):
    page = card.page
    side = side_of(page, "plain")
    page.get_by_role("slider", name="Temperature").evaluate(
        "input => { for (const value of [-2, 2, -1, 1.5]) { input.value = value;"
        " input.dispatchEvent(new Event('input')); } }"
    )
    ready(card)
    found = wanted(store, runs[1]["plain"], Decision(temperature=2**1.5))
    assert number_at(card, side, "nll") == f"{found['nll']:.3f}"


def test_a_prior_that_one_head_cannot_take_is_explained_for_that_side(card, runs, store):
    page = card.page
    page.get_by_role("slider", name="Class shares").fill("1")
    ready(card)
    expect(card.locator(".refused")).to_contain_text("The class prior of this head cannot be changed here.")
    plain, vector = side_of(page, "plain"), side_of(page, "vector")
    assert number_at(card, vector, "nll") == "–"
    assert number_at(card, plain, "nll") == f"{wanted(store, runs[1]['plain'], Decision(uniform=1))['nll']:.3f}"
    expect(page.get_by_role("button", name=f"Use in export of {vector.upper()}")).to_be_disabled()
    expect(page.get_by_role("button", name=f"Use in export of {plain.upper()}")).to_be_enabled()


def test_costs_are_named_with_the_keyboard(card, runs, store):
    page = card.page
    card.locator("summary", has_text="Costs").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Costs: Image of").select_option("digit 0")
    page.get_by_label("Costs: called").select_option("digit 0")
    amount = page.get_by_label("Costs: costs")
    amount.fill("20")
    amount.press("Enter")
    expect(amount).to_have_attribute("aria-invalid", "true")
    expect(card.locator(".wrong", has_text="choose two different classes")).to_be_visible()
    page.get_by_label("Costs: called").select_option("digit 1")
    amount.press("Enter")
    ready(card)
    costs = ({"label": "digit 0", "predicted": "digit 1", "cost": 20},)
    found = wanted(store, runs[1]["plain"], Decision(costs=costs))
    side = side_of(page, "plain")
    assert number_at(card, side, "cost") == f"{found['cost']:.3f}"
    page.get_by_role("button", name="Remove digit 0 called digit 1 from Costs").press("Enter")
    ready(card)
    assert number_at(card, side, "cost") == f"{wanted(store, runs[1]['plain'], Decision())['cost']:.3f}"


def test_shares_and_cut_offs_of_named_classes(card, runs, store):
    page = card.page
    side = side_of(page, "plain")
    card.locator("summary", has_text="Cut-offs").click()
    page.get_by_label("Cut-offs: Class").select_option("digit 8")
    page.get_by_label("Cut-offs: Divide by").fill("0.2")
    card.locator("details", has_text="Cut-offs").get_by_role("button", name="Add").click()
    card.locator("summary", has_text="Shares that you know").click()
    page.get_by_label("Shares that you know: Class").select_option("digit 8")
    page.get_by_label("Shares that you know: Share").fill("70")
    page.get_by_label("Shares that you know: Share").press("Enter")
    ready(card)
    found = wanted(store, runs[1]["plain"], Decision(shares={"digit 8": 0.7}, cutoffs={"digit 8": 0.2}))
    assert number_at(card, side, "nll") == f"{found['nll']:.3f}"
    assert number_at(card, side, "accuracy") == f"{100 * found['accuracy']:.1f}"
    expect(page.get_by_role("slider", name="Class shares")).to_be_disabled()
    page.get_by_label("Shares that you know: Class").select_option("digit 1")
    page.get_by_label("Shares that you know: Share").fill("40")
    page.get_by_label("Shares that you know: Share").press("Enter")
    expect(card.locator(".problem")).to_contain_text("The shares of classes must sum to at most 1, got 1.1")
    expect(card).to_have_attribute("data-state", "failed")


def test_settings_are_kept_for_an_export_shown_again_and_removed(card, runs, store):
    page = card.page
    side = side_of(page, "plain")
    name, key = side.upper(), best(store, runs[1]["plain"])
    use = page.get_by_role("button", name=f"Use in export of {name}")
    expect(use).to_be_disabled()
    page.get_by_role("slider", name="Temperature").fill("1")
    page.get_by_role("slider", name="No answer below").fill("0.6")
    ready(card)
    use.click()
    expect(page.locator("#live")).to_have_text(f"Kept for the export of {name}.")
    assert kept_decision(store, key) == Decision(temperature=2, abstain_below=0.6)
    kept = card.locator(f"[data-kept={side}]")
    expect(kept).to_contain_text("These settings are kept")
    expect(kept.locator("code")).to_contain_text(f"{Path('mine', 'results', key)} --out head")
    page.reload()
    ready(card)
    expect(kept).to_contain_text("Other settings are kept")
    page.get_by_role("button", name=f"Show those of {name}").click()
    ready(card)
    expect(page.get_by_role("slider", name="No answer below")).to_have_value("0.6")
    expect(page.get_by_role("slider", name="Temperature")).to_have_value("1")
    page.get_by_role("button", name=f"Remove from export of {name}").click()
    expect(kept).to_have_count(0)
    assert kept_decision(store, key) is None


def test_on_test_images_nothing_is_kept_and_it_is_said_why(card, runs, store):
    page = card.page
    page.get_by_text("Test images", exact=True).click()
    page.get_by_role("button", name="Look at the test images").click()
    expect(card.locator(".warning")).to_contain_text("make the test result too good")
    page.get_by_role("slider", name="Temperature").fill("1")
    ready(card)
    side = side_of(page, "plain")
    found = wanted(store, runs[1]["plain"], Decision(temperature=2), "test")
    assert number_at(card, side, "nll") == f"{found['nll']:.3f}"
    for name in "AB":
        expect(page.get_by_role("button", name=f"Use in export of {name}")).to_be_disabled()


@pytest.mark.parametrize("width", [400, 1920])
def test_nothing_overflows(browse, width):
    page = browse("compare", width=width)
    card = opened(page)
    page.get_by_role("slider", name="No answer below").fill("0.7")
    for summary in card.locator("summary").all():
        summary.click()
    ready(card)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
