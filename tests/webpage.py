"""A page in headless Chromium.

    def test_something(cluster, page):
        p = page(cluster())

The fixture (of tests/browser/conftest.py) opens a page of a weftd.  Each page
is a browser of its own to weftd: no cookie is shared.  Every test ends with a
look at what the browser complained about: an error on the console or a violation
of the Content-Security-Policy fails it.

p.shot("NAME") makes a picture docs/screenshots/NAME.png when WEFT_SCREENSHOTS
is set; p.axe() is what axe-core finds wrong for people with a screen reader or
a keyboard only.
"""

import base64
import collections
import os
import pathlib
import re
import shutil
import tempfile

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from wefttest import BUILD, SOURCE, eventually, run

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
    "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-proxy-server",
    # No page waits because another one is in front.
    "--disable-renderer-backgrounding", "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
]

# Runs before the page's own scripts.
WATCH = """
window.weftViolations = [];
document.addEventListener("securitypolicyviolation", (e) =>
  window.weftViolations.push(`${e.violatedDirective}: ${e.blockedURI}`));
"""


AXE = "venv/lib/python3*/site-packages/axe_core_python/axe.min.js"
SHOTS = SOURCE / "docs" / "screenshots"

# The lines of a section's table.
ROWS = """
const text = (cell) => cell.textContent.replaceAll("\\u00a0", " ");
const cells = (row) => Object.fromEntries([...row?.children ?? []].map((cell) =>
  [cell.dataset.title, text(cell)]));
const rows = (section) =>
  [...document.querySelectorAll(`#${section} tbody tr`)];
const line = (section, key) => rows(section).find((row) =>
  text(row.firstElementChild).startsWith(key));
"""

BUTTON = """[...document.querySelectorAll(
    `${arguments[1]} button, ${arguments[1]} summary`)]
  .find((b) => b.textContent.trim() === arguments[0] && b.offsetParent !== null)
"""

# Returns whether it could be pressed.  All happens in one step, because news from weftd move
# the page: a click that takes several steps lands beside a button that has just moved.
PRESS = """
const press = (e) => {
  e?.scrollIntoView({block: "center", behavior: "instant"});
  const {x, y, width, height} = e?.getBoundingClientRect() ?? {};
  if (!e?.contains(document.elementFromPoint(x + width / 2, y + height / 2)))
    return false;
  e.focus();
  e.click();
  return true;
};
"""


class Chromium:
    """A browser for many pages, one after the other, because it takes long to start.  `ca`:
    the file of a CA that it trusts, besides its own."""

    def __init__(self, ca=None):
        self.home = tempfile.mkdtemp(prefix="weft-test-chromium-")
        if ca:
            store = pathlib.Path(self.home) / ".pki/nssdb"
            store.mkdir(parents=True)
            run("certutil", "-d", f"sql:{store}", "-N", "--empty-password")
            run("certutil", "-d", f"sql:{store}", "-A", "-n", "weft", "-t",
                "C,,", "-i", ca)
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in FLAGS + [f"--user-data-dir={self.home}/profile"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        try:
            self.driver = webdriver.Chrome(options=options, service=Service(
                "/usr/bin/chromedriver", env={**os.environ, "HOME": self.home}))
            self.driver.set_script_timeout(120)
        except BaseException:
            shutil.rmtree(self.home, ignore_errors=True)
            raise
        self.blank = self.driver.current_window_handle

    def open(self):
        self.driver.switch_to.new_window("window")
        self.driver.set_window_size(1280, 1600)

    def close(self, origin):
        """Nothing is left of the page."""
        cdp = self.driver.execute_cdp_cmd
        cdp("Network.clearBrowserCookies", {})
        cdp("Storage.clearDataForOrigin",
            {"origin": origin, "storageTypes": "all"})
        self.driver.close()
        self.driver.switch_to.window(self.blank)
        self.driver.get_log("browser")

    def quit(self):
        self.driver.quit()
        shutil.rmtree(self.home, ignore_errors=True)


class Page:
    def __init__(self, chromium, url, at="/", **media):
        self.chromium, self.url = chromium, url
        self.driver = chromium.driver
        chromium.open()
        self.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        if media:
            self.cdp("Emulation.setEmulatedMedia",
                     features=[{"name": k.replace("_", "-"), "value": v}
                               for k, v in media.items()])
        self.lost_on_purpose = False
        self.refusals = None  # console lines of refusals that are meant
        self.driver.get(url + at)

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def js(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, selector):
        """The text that a reader sees, with plain spaces."""
        return self.js("""
            return [...document.querySelectorAll(arguments[0])]
              .filter((e) => e.checkVisibility()).map((e) => e.innerText)
              .join(" ").replaceAll("\\u00a0", " ");
            """, selector)

    def rows(self, section):
        """The table of a section: a list of {column: text}."""
        return self.js(ROWS + "return rows(arguments[0]).map(cells)", section)

    def row(self, section, key):
        """The line whose first cell begins so; empty when there is none."""
        return collections.defaultdict(str, self.js(
            ROWS + "return cells(line(...arguments))", section, key))

    def press_row(self, section, key, label):
        """A button of that line."""
        self._press("""[...line(...arguments)?.querySelectorAll("button") ?? []]
            .find((b) => b.textContent === arguments[2] && b.offsetParent)""",
                    section, key, label, what=f"{label} of {key}")

    def facts(self, array):
        """The card of an array: {title: text}, and its state."""
        return self.js("""
            const card = document.querySelector(
              `#arrays [data-key="${arguments[0]}"]`);
            if (!card)
              return null;
            const facts = {
              State: card.querySelector("h3 .state").textContent };
            for (const title of card.querySelectorAll("dt"))
              facts[title.textContent] = title.nextElementSibling.textContent
                .replaceAll("\\u00a0", " ");
            return facts;
            """, array)

    def stream(self):
        return self.js("return document.body.dataset.stream")

    def await_stream(self, state):
        eventually(lambda: self.stream() == state, what=f"stream {state}")

    def press(self, label, within="body"):
        """The first button of this label that is shown there."""
        self._press(BUTTON, label, within, what=f"the button {label!r} in {within}")

    def button(self, label, within="body"):
        return eventually(lambda: self.js(f"return {BUTTON}", label, within),
                          what=f"the button {label!r} in {within}")

    def click(self, element):
        self._press("arguments[0]", element, what="the element")

    def _press(self, find, *arguments, what):
        eventually(lambda: self.js(f"{ROWS} {PRESS} return press({find})", *arguments),
                   what=f"{what}, uncovered")

    def type(self, name, text, within="dialog"):
        """Into the field of this name."""
        field = self.driver.find_element(
            By.CSS_SELECTOR, f'{within} [name="{name}"]')
        field.clear()
        field.send_keys(text)

    def choose(self, name, value, within="dialog"):
        self.js("""
            const field = document.querySelector(
              `${arguments[2]} [name="${arguments[0]}"]`);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input", {bubbles: true}));
            field.dispatchEvent(new Event("change", {bubbles: true}));
            """, name, value, within)

    def dialog(self):
        """The text of the open dialog; empty when there is none."""
        return self.text("dialog[open]")

    def confirm(self, label, name):
        """Go through with a dangerous action: type the name, press."""
        eventually(lambda: self.js(
            "return document.querySelector('dialog[open] [name=confirm]')"
            "?.offsetParent"), what="the preflight's answer")
        self.type("confirm", name)
        self.press(label, "dialog")
        eventually(lambda: not self.dialog(), what=f"{label}: to be done")

    def phone(self):
        self.cdp("Emulation.setDeviceMetricsOverride", width=390, height=844,
                 deviceScaleFactor=1, mobile=True)

    def theme(self, theme):
        self.js("weftTheme.choose(arguments[0])", theme)

    def axe(self):
        """The faults of at least serious impact: a list of sentences."""
        source, = pathlib.Path(BUILD).glob(AXE)  # of tests/requirements.txt
        self.js(source.read_text())  # through the WebDriver: the CSP stays
        found = self.driver.execute_async_script("""
            const done = arguments[arguments.length - 1];
            // Colours on their way are no colours to judge.
            const moving = document.getAnimations()
              .filter((a) => a instanceof CSSTransition)
              .map((a) => a.finished.catch(() => {}));
            Promise.all(moving)
              .then(() => axe.run(document, {resultTypes: ["violations"]}))
              .then((r) => done(r.violations), (e) => done(String(e)));
            """)
        assert isinstance(found, list), found
        return [f"{v['id']}: {v['help']}: "
                f"{[n['html'][:200] for n in v['nodes'][:3]]}"
                for v in found if v["impact"] in ("serious", "critical")]

    def shot(self, name, height_max=10000):
        """The page as it is, whole or as much as is behind an open dialog; its top."""
        if not os.environ.get("WEFT_SCREENSHOTS"):
            return
        width, height, dialog, top = self.js("""
            const dialog = document.querySelector("dialog[open]") !== null;
            return [innerWidth, dialog ? innerHeight : Math.max(400,
              Math.ceil(document.body.getBoundingClientRect().height)), dialog,
              dialog ? scrollY : 0];
            """)
        height = min(height, height_max)
        # A smaller scale makes small files.
        picture = self.cdp(
            "Page.captureScreenshot", captureBeyondViewport=not dialog,
            clip={"x": 0, "y": top, "width": width, "height": height,
                  "scale": 0.65})
        SHOTS.mkdir(exist_ok=True)
        (SHOTS / f"{name}.png").write_bytes(
            base64.b64decode(picture["data"]))

    def complaints(self):
        found = list(self.js("return window.weftViolations"))
        for line in self.driver.get_log("browser"):
            if line["message"].startswith("chrome://"):
                continue  # of a page of the browser's own, which a new window begins with
            if self.lost_on_purpose and re.search(
                    r"/api/v1/[a-z]+(\?\S*)? - Failed to load resource: "
                    r"net::ERR_",
                    line["message"]):
                continue
            if self.refusals and re.search(self.refusals, line["message"]):
                continue
            found.append(f"{line['level']}: {line['message']}")
        return found


class Pages:
    """Those of a test.  Each has a Chromium of its own for the time, so they
    share no cookie."""

    def __init__(self, ca=None):
        self.ca, self.idle, self.opened = ca, [], []
        self.refusals = None  # of pages that are opened from now on

    def __call__(self, server, at="/", live=True, **media):
        """A page of a cluster, or of the weftd with this URL; returned once it is live."""
        chromium = self.idle.pop() if self.idle else Chromium(self.ca)
        try:
            p = Page(chromium, getattr(server, "admin", server), at, **media)
        except BaseException:
            chromium.quit()
            raise
        p.refusals = self.refusals
        self.opened.append(p)
        if live:
            p.await_stream("live")
        return p

    def tell(self):
        """For people, when a test has failed."""
        told = []
        for p in self.opened:
            try:
                told += [f"{p.driver.current_url}: {p.text('body')[:1000]}",
                         *p.complaints()]
            except WebDriverException as e:
                told.append(f"{p.url}: {e}")
        return "\n".join(told)

    def end(self):
        """Ends a test: closes its pages."""
        complaints = []
        while self.opened:
            p = self.opened.pop()
            try:
                complaints += p.complaints()
                p.chromium.close(p.url)
            except BaseException:
                p.chromium.quit()
                raise
            self.idle.append(p.chromium)
        self.refusals = None
        assert not complaints, complaints

    def quit(self):
        for p in self.opened:
            p.chromium.quit()
        for chromium in self.idle:
            chromium.quit()
