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
        const number = (text) => parseFloat(text.replace(/,/g, ""));
        const rows = [...body.rows].sort((a, b) => {
          const [x, y] = [number(key(a)), number(key(b))];
          const order = isNaN(x) || isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
          return down ? -order : order;
        });
        body.append(...rows);
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
    for (const [id, source] of Object.entries(data.counters)) lines(id, source);
  }
  draw();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  addEventListener("beforeprint", () => charts.forEach((chart) => chart.resize()));
})();
