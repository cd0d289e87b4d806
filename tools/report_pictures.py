#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the pictures of docs/report.md: the HTML report of a made-up run of eight GPU workers, section by section, in Chromium.

usage: tools/report_pictures.py [BUILD_DIRECTORY]      (default: build; needs the targets capture and made_runs)
"""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "browser"))
from browser import Browser, find_chromium  # noqa: E402

WIDTH = 1000
# Picture: its first element, and the most pixels of height.
SECTIONS = {
    "verdict": ("header", 400),
    "workers": ("#s-workers", 880),
    "classes": ("#s-classes", 360),
    "steps": ("#s-steps", 640),
    "timeline": ("#s-timeline", 820),
    "input": ("#s-input", 520),
    "collectives": ("#s-collectives", 300),
    "operators": ("#s-operators", 420),
    "kernels": ("#s-kernels", 300),
    "memory": ("#s-memory", 420),
    "counters": ("#s-counters", 480),
}
# Pictures that are as wide as a table is, so that all of its columns show; the page itself would scroll them.
WIDE = {"workers": "#workers"}
# Returns the width of the page at which nothing of a table is hidden. The page's own column is no wider than 76rem.
WIDEN = """(() => {
  document.body.style.maxWidth = "none";
  const style = getComputedStyle(document.body);
  return Math.ceil(document.querySelector(%r).scrollWidth + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight)) + 1;
})()"""
# Charts follow the size of the page a few frames later.
SETTLE = "new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 500))"
# The section goes on to the next heading.
BOX = """(() => {
  const first = document.querySelector(%r);
  const next = [...document.querySelectorAll("h2, script")].find((e) => e !== first && (first.compareDocumentPosition(e) & 4));
  const top = first.getBoundingClientRect().top + scrollY;
  const bottom = next.tagName === "H2" ? next.getBoundingClientRect().top + scrollY : document.body.scrollHeight;
  return {x: 0, y: top, width: innerWidth, height: Math.min(bottom - top, %d)};
})()"""


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build").resolve()
    program = find_chromium()
    if program is None:
        sys.exit("report_pictures: no Chromium is installed; tools/install_deps.sh interop installs chromium-headless-shell")
    pictures = ROOT / "docs" / "pictures"
    pictures.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, Browser(program) as browser:
        subprocess.run([build / "tests" / "made_runs", scratch, "training"], check=True)
        page = f"{scratch}/report.html"
        subprocess.run([build / "bin" / "jobscope", "report", f"{scratch}/training", f"--html={page}"], check=True, stdout=subprocess.DEVNULL)
        for name, (selector, height) in SECTIONS.items():
            path = pictures / f"report_{name}.png"
            browser.size(WIDTH, 900)
            browser.open(page)
            if name in WIDE:
                browser.size(browser.evaluate(WIDEN % WIDE[name]), 900)
                browser.evaluate(SETTLE)
            browser.screenshot(path, browser.evaluate(BOX % (selector, height)))
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
