"""The page in a real browser; tests wait for states of the page, never for fixed times."""

import re
import urllib.error
import urllib.request

import pytest
from colors import contrast
from driving import ENDLESS, LONG, SHORT, choose, comes_to, epochs, fill, preset, settled, state
from playwright.sync_api import expect

pytestmark = pytest.mark.slow
COMMA = 'digit 1, "thin"'


def test_a_job_outlives_a_reload_a_second_browser_and_the_server(server, browse):
    page = browse()
    preset(page, "A", "plain")
    fill(page, "A", ENDLESS)
    page.get_by_role("button", name="Train A", exact=True).click()
    state(page, "job-A", "running")
    comes_to(page, "A", 2)
    run = page.get_by_test_id("job-A").get_attribute("data-run")

    page.reload()
    expect(page.get_by_test_id("job-A")).to_have_attribute("data-run", run, timeout=LONG)
    comes_to(page, "A", epochs(page, "A") + 2)
    expect(page.get_by_label("A: Epochs", exact=True)).to_have_value("100000")

    other = browse()
    expect(other.get_by_test_id("job-A")).to_have_attribute("data-run", run, timeout=LONG)
    comes_to(other, "A", epochs(other, "A") + 2)

    reached = epochs(other, "A")
    server.kill()
    server.start()
    page.goto(server.url)
    expect(page.get_by_test_id("job-A")).to_have_attribute("data-run", run, timeout=LONG)
    state(page, "job-A", "running")
    comes_to(page, "A", reached + 2)

    page.get_by_role("button", name="Cancel A").click()
    # Cancelling takes at most 5 s; the rest is for the page to poll.
    expect(page.get_by_test_id("job-A")).to_have_attribute("data-state", "cancelled", timeout=8000)
    expect(page.get_by_test_id("card-A")).to_contain_text("kept")


def test_the_kept_run_of_a_cancelled_side_is_compared(server, browse):
    page = browse()
    for side in "AB":
        preset(page, side, "plain")
    fill(page, "A", SHORT)
    fill(page, "B", ENDLESS)
    page.get_by_role("button", name="Train A and B, then compare").click()
    state(page, "job-A", "done")
    comes_to(page, "B", 3)
    page.get_by_role("button", name="Cancel B").click()
    state(page, "job-B", "cancelled")
    state(page, "compare", "done")
    expect(page.get_by_test_id("compare")).to_contain_text("stopped")


def test_disabled_options_have_a_reason_and_are_enabled_again(look):
    page = look()
    for side in "AB":
        preset(page, side, "plain")
    choose(page, "B: Classifier", "logreg")
    expect(page.get_by_label("B: Epochs", exact=True)).to_be_disabled()
    expect(page.get_by_label("A: Epochs", exact=True)).to_be_enabled()
    expect(page.locator("#row-train-schedule-epochs")).to_contain_text("train.schedule have no effect")
    choose(page, "B: Classifier", "linear")
    expect(page.get_by_label("B: Epochs", exact=True)).to_be_enabled()
    expect(page.locator("#row-head-body-mlp-dropout")).to_be_hidden()
    choose(page, "A: Body", "mlp")
    expect(page.get_by_label("A: MLP: dropout rate", exact=True)).to_be_visible()
    expect(page.get_by_label("B: MLP: dropout rate", exact=True)).to_be_hidden()
    expect(page.get_by_label("A: Preset")).to_have_value("custom")


def test_text_typed_while_a_request_is_pending_stays(look):
    page = look()
    box = page.get_by_label("B: Epochs", exact=True)
    box.fill("")
    # Each digit comes after the pause that triggers a request, and possibly before its reply.
    box.press_sequentially("123456", delay=170)
    settled(page)
    expect(box).to_have_value("123456")
    expect(page.get_by_test_id("error-B")).to_contain_text("less than or equal to 100000")
    box.press_sequentially("7")
    page.get_by_label("B: Preset").select_option("plain")
    settled(page)
    expect(box).to_have_value("50")


def test_a_name_with_a_comma_is_one_name(look):
    page = look()
    row = page.locator("#row-background")
    box = page.get_by_label("B: Background classes", exact=True)
    row.get_by_role("button", name=COMMA).nth(1).click()
    settled(page)
    expect(box).to_have_value('"digit 1, ""thin"""')
    row.get_by_role("button", name="digit 0", exact=True).nth(1).click()
    settled(page)
    kept = page.evaluate("JSON.parse(localStorage.getItem('frostbench_form')).sides.B.background")
    assert kept == [COMMA, "digit 0"]
    row.get_by_role("button", name=COMMA).nth(1).click()
    settled(page)
    expect(box).to_have_value("digit 0")


def test_a_server_that_is_gone_is_reported(server, browse):
    page = browse()
    settled(page)
    server.kill()
    page.get_by_label("B: Epochs", exact=True).fill("7")
    expect(page.locator("#difference")).to_contain_text("The server does not respond", timeout=LONG)
    server.start()
    expect(page.locator("#difference")).not_to_contain_text("The server does not respond", timeout=LONG)


def test_a_value_that_is_not_allowed_is_an_error_and_cannot_be_trained(look):
    page = look()
    fill(page, "B", {"Epochs": "0"})
    expect(page.get_by_test_id("error-B")).to_contain_text(
        "Epochs (train.schedule.epochs): Input should be greater than or equal to 1"
    )
    page.get_by_role("button", name="Train B", exact=True).click()
    expect(page.get_by_test_id("toast-body")).to_contain_text("train.schedule.epochs")
    expect(page.get_by_test_id("jobs")).to_have_attribute("data-state", "idle")
    fill(page, "B", {"Epochs": "3"})
    expect(page.get_by_test_id("error-B")).to_have_count(0)


def test_a_failed_job_shows_its_log(server, browse):
    page = browse()
    for part in server.folder.glob("copy/shards/*"):
        part.write_bytes(b"not a shard")
    choose(page, "A: Cache", "copy")
    page.get_by_role("button", name="Train A", exact=True).click()
    state(page, "job-A", "failed")
    page.get_by_text("Show the log").click()
    expect(page.get_by_test_id("card-A")).to_contain_text("copy")


def test_a_foreign_host_name_is_refused(untouched):
    request = urllib.request.Request(untouched.url, headers={"Host": "evil.example"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code == 400
    refused.value.close()
    with urllib.request.urlopen(untouched.url, timeout=10) as answer:
        assert answer.status == 200


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_help_and_body_text_have_contrast(look, theme):
    page = look(f"?__theme={theme}")
    found = page.evaluate(
        """() => [...document.querySelectorAll('.fp-label p, .fp-label b, .fp-key, .fp-reason, .fp-diff')].map(e => {
            const papers = [];
            for (let box = e; box; box = box.parentElement) papers.push(getComputedStyle(box).backgroundColor);
            return [getComputedStyle(e).color, ...papers]; })"""
    )
    assert len(found) > 50
    for ink, *papers in {tuple(colors) for colors in found}:
        assert contrast(rgba(ink)[:3], over(papers)) >= 4.5, (ink, papers)


def test_a_narrow_page_does_not_scroll_sideways(look):
    page = look(width=400)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def over(papers):
    """Blend backgrounds, nearest first, some of them transparent; channels from 0 to 1."""
    seen = (1.0, 1.0, 1.0)
    for red, green, blue, alpha in map(rgba, reversed(papers)):
        seen = tuple(alpha * new + (1 - alpha) * old for new, old in zip((red, green, blue), seen, strict=True))
    return seen


def rgba(color):
    """Parse a computed CSS colour, `rgb(…)`, `rgba(…)` or `color(srgb … / …)`, to four numbers from 0 to 1."""
    numbers = [float(n) for n in re.findall(r"[\d.]+", color)]
    scale = 1 if "srgb" in color else 255
    return (*(n / scale for n in numbers[:3]), numbers[3] if len(numbers) > 3 else 1.0)
