"""A page in headless Chromium.

    from webpage import page

The fixture opens weftd's page of a cluster: p = page(c).  Every test ends with
a look at what the browser complained about: an error on the console or a
violation of the Content-Security-Policy fails it.
"""

import re
import shutil
import tempfile

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from wefttest import eventually

__all__ = ["Page", "page"]

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
    "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]

# Runs before the page's own scripts.
WATCH = """
window.weftViolations = [];
document.addEventListener("securitypolicyviolation", (e) =>
  window.weftViolations.push(`${e.violatedDirective}: ${e.blockedURI}`));
"""


class Page:
    def __init__(self, url, **media):
        self.profile = tempfile.mkdtemp(prefix="weft-test-chromium-")
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        for flag in FLAGS + ["--window-size=1280,1600",
                             f"--user-data-dir={self.profile}"]:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(
            service=Service("/usr/bin/chromedriver"), options=options)
        self.cdp("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        if media:
            self.cdp("Emulation.setEmulatedMedia",
                     features=[{"name": k.replace("_", "-"), "value": v}
                               for k, v in media.items()])
        self.lost_on_purpose = False
        self.url = url
        self.driver.get(url)

    def cdp(self, command, **arguments):
        return self.driver.execute_cdp_cmd(command, arguments)

    def js(self, text, *arguments):
        return self.driver.execute_script(text, *arguments)

    def text(self, selector):
        """What a reader sees of it, with plain spaces."""
        found = self.driver.find_elements(By.CSS_SELECTOR, selector)
        return " ".join(e.text for e in found).replace("\u00a0", " ")

    def rows(self, section):
        """The table of a section: a list of {column: text}."""
        return self.js("""
            return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]
              .map((row) => Object.fromEntries([...row.children].map((cell) =>
                [cell.dataset.title,
                 cell.textContent.replaceAll("\\u00a0", " ")])));
            """, section)

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

    def complaints(self):
        found = list(self.js("return window.weftViolations"))
        for line in self.driver.get_log("browser"):
            if self.lost_on_purpose and re.search(
                    r"/api/v1/(events|status) - Failed to load resource: "
                    r"net::ERR_",
                    line["message"]):
                continue
            found.append(f"{line['level']}: {line['message']}")
        return found

    def close(self):
        self.driver.quit()
        shutil.rmtree(self.profile, ignore_errors=True)


@pytest.fixture
def page():
    opened = []

    def make(cluster, **media):
        p = Page(cluster.admin + "/", **media)
        opened.append(p)
        p.await_stream("live")
        return p

    yield make
    complaints = []
    for p in opened:
        try:
            complaints += p.complaints()
        finally:
            p.close()
    assert not complaints, complaints
