// SPDX-License-Identifier: Apache-2.0
// Sorting, filtering and charts of the report. Everything that it shows stands in tables without it, too.
"use strict";
(() => {
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") !== "descending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const key = (row) => row.cells[column].textContent;
        const sign = down ? -1 : 1;
        const byText = (a, b) => sign * key(a).localeCompare(key(b), "en", { numeric: true });
        const byNumber = (a, b) => {
          const [x, y] = [parseFloat(key(a)), parseFloat(key(b))];
          // What is not known comes last in both directions.
          return isNaN(x) || isNaN(y) ? isNaN(x) - isNaN(y) : sign * (x - y);
        };
        body.append(...[...body.rows].sort(head.classList.contains("text") ? byText : byNumber));
      });
    });
  }
  for (const input of document.querySelectorAll("input[type=search]")) {
    input.hidden = false;
    input.addEventListener("input", () => {
      const wanted = input.value.toLowerCase();
      for (const row of document.getElementById(input.dataset.table).tBodies[0].rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
      }
    });
  }

  // Timelines: keys and pointers choose a block, which is read out beneath; zoom makes the picture wider.
  const units = 10000;
  for (const figure of document.querySelectorAll("figure.timeline")) {
    const pictures = figure.querySelector(".pictures");
    const wide = figure.querySelector(".wide");
    const ms = parseFloat(figure.dataset.ms);
    const reading = document.createElement("p");
    reading.className = "quiet reading";
    reading.setAttribute("role", "status");
    const help = "Arrow keys choose an event, + and - zoom, 0 shows the whole step.";
    reading.textContent = help;
    const buttons = document.createElement("p");
    buttons.className = "zoom";
    figure.append(reading, buttons);
    pictures.tabIndex = 0;
    let zoom = 1;
    let chosen = null;
    const outline = document.createElementNS("http://www.w3.org/2000/svg", "path");
    outline.setAttribute("class", "chosen");
    const rows = [];  // of blocks, sorted by begin
    for (const line of pictures.querySelectorAll("svg.line")) {
      const blocks = new Map();
      for (const path of line.querySelectorAll("path")) {
        for (const [, x, y, width] of path.getAttribute("d").matchAll(/M(\d+) (\d+)h(\d+)/g)) {
          const row = blocks.get(+y) ?? blocks.set(+y, []).get(+y);
          row.push({ x: +x, y: +y, width: +width, line, name: path.querySelector("title").textContent });
        }
      }
      for (const y of [...blocks.keys()].sort((a, b) => a - b)) rows.push(blocks.get(y).sort((a, b) => a.x - b.x));
    }
    const time = (x) => ((x / units) * ms).toFixed(ms < 10 ? 4 : 2);
    const choose = (block) => {
      if (!block) return;
      chosen = block;
      outline.setAttribute("d", `M${block.x} ${block.y}h${block.width}v.9h-${block.width}z`);
      block.line.append(outline);
      const worker = block.line.closest("svg.worker").dataset.worker;
      reading.textContent =
        `${worker}, ${block.line.dataset.line}: ${block.name}, ${time(block.width)} ms (from ${time(block.x)} to ${time(block.x + block.width)} ms)`;
      const middle = ((block.x + block.width / 2) / units) * wide.clientWidth;
      if (zoom > 1) pictures.scrollLeft = middle - pictures.clientWidth / 2;
    };
    const magnify = (factor) => {
      zoom = factor === 0 ? 1 : Math.min(64, Math.max(1, zoom * factor));
      wide.style.width = `${100 * zoom}%`;
      choose(chosen);
    };
    const nearest = (row, x) => row.reduce((best, b) => (Math.abs(b.x - x) < Math.abs(best.x - x) ? b : best));
    const move = (rowStep, blockStep) => {
      const at = rows.findIndex((row) => row.includes(chosen));
      if (at < 0) return choose(rows[0]?.[0]);
      if (rowStep === 0) return choose(rows[at][rows[at].indexOf(chosen) + blockStep]);
      const row = rows[at + rowStep];
      if (row) choose(nearest(row, chosen.x));
    };
    const keys = {
      ArrowRight: () => move(0, 1), ArrowLeft: () => move(0, -1), ArrowDown: () => move(1, 0), ArrowUp: () => move(-1, 0),
      "+": () => magnify(2), "=": () => magnify(2), "-": () => magnify(0.5), 0: () => magnify(0),
    };
    pictures.addEventListener("keydown", (event) => {
      if (!(event.key in keys) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      keys[event.key]();
    });
    pictures.addEventListener("click", (event) => {
      const line = event.target.closest("svg.line");
      if (!line) return;
      const box = line.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * units;
      const y = Math.floor(((event.clientY - box.top) / box.height) * line.viewBox.baseVal.height);
      const row = rows.find((one) => one[0].line === line && one[0].y === y);
      choose(row?.find((block) => block.x <= x && x <= block.x + block.width));
    });
    for (const [label, title, factor] of [["+", "zoom in", 2], ["-", "zoom out", 0.5], ["0", "whole step", 0]]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.setAttribute("aria-label", title);
      button.addEventListener("click", () => magnify(factor));
      buttons.append(button);
    }
  }

  const data = JSON.parse(document.getElementById("data").textContent);
  const colors = ["#e07b39", "#8f6bbd", "#c25b9c", "#2f7fc1", "#67b3dd", "#b8922b", "#a3492f", "#6d5a4f", "#c93c3c", "#3f9b6c",
                  "#7fbf5a", "#9aa0a8"];
  const charts = [];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const axis = (title) => ({
    title: { display: title !== "", text: title, color: css("--quiet") },
    ticks: { color: css("--quiet") }, grid: { color: css("--line") },
  });
  const plugins = () => ({ legend: { position: "bottom", labels: { color: css("--text"), boxWidth: 14 } } });
  function stacked(id, source, horizontal, title) {
    const canvas = document.getElementById(id);
    if (!canvas || !source) return;
    const along = horizontal ? "y" : "x";
    const across = horizontal ? "x" : "y";
    charts.push(new Chart(canvas, {
      type: "bar",
      data: {
        labels: source.labels,
        datasets: source.classes.map((entry) => ({
          label: entry.title, data: entry.ms, backgroundColor: colors[entry.index % colors.length], borderWidth: 0,
          barPercentage: 1, categoryPercentage: horizontal ? 0.85 : 1,
        })),
      },
      options: {
        animation: false, maintainAspectRatio: false, indexAxis: horizontal ? "y" : "x", plugins: plugins(),
        scales: { [along]: { ...axis(title), stacked: true }, [across]: { ...axis("ms per step"), stacked: true } },
      },
    }));
  }
  function lines(id, source) {
    const canvas = document.getElementById(id);
    if (!canvas || !source) return;
    charts.push(new Chart(canvas, {
      type: "line",
      data: {
        datasets: source.map((entry, i) => ({
          label: entry.title, data: entry.points.map(([x, y]) => ({ x, y })), borderColor: colors[i % colors.length],
          backgroundColor: colors[i % colors.length], borderWidth: 1.5, pointRadius: 0,
        })),
      },
      options: {
        animation: false, maintainAspectRatio: false, plugins: plugins(),
        scales: { x: { ...axis("ms"), type: "linear" }, y: axis("") },
      },
    }));
  }
  function draw() {
    while (charts.length > 0) charts.pop().destroy();
    stacked("workers-chart", data.workers, true, "");
    stacked("steps-chart", data.steps, false, "step");
    for (const [id, source] of Object.entries(data.lines)) lines(id, source);
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", () => charts.forEach((chart) => chart.resize()));
})();
