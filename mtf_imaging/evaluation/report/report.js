// Sorts the table of cases and the pictures, shows the pictures of all cases, hides outlines, and marks tables that
// scroll. The address may name the column to sort by: report.html#sort=liver_dice in ascending or #sort=-liver_dice in
// descending order. Without scripts, all pictures are shown.
"use strict";
(() => {
  const table = document.getElementById("cases");
  const body = table.tBodies[0];
  const pictures = document.getElementById("pictures");
  const more = document.getElementById("more");
  const FEW = 3; // as in the style
  const heads = [...table.tHead.rows[1].cells];

  function sort(key, descending) {
    const column = heads.findIndex((head) => head.dataset.key === key);
    if (column < 0) return;
    const number = (row) => row.cells[column].dataset.value;
    const rows = [...body.rows].sort((a, b) => {
      const [x, y] = [number(a), number(b)];
      if (x === undefined || y === undefined) return (x === undefined) - (y === undefined); // undefined values last
      return (descending ? y - x : x - y) || a.cells[0].dataset.value - b.cells[0].dataset.value;
    });
    body.append(...rows);
    pictures.append(...rows.map((row) => document.getElementById(row.querySelector("a").hash.slice(1))));
    for (const head of heads) head.removeAttribute("aria-sort");
    heads[column].setAttribute("aria-sort", descending ? "descending" : "ascending");
    table.dataset.sorted = (descending ? "-" : "") + key;
  }

  for (const head of heads) {
    head.querySelector("button").addEventListener("click", () => {
      sort(head.dataset.key, head.getAttribute("aria-sort") === "ascending");
    });
  }
  for (const box of document.querySelectorAll("[data-hides]")) {
    const show = () => document.body.classList.toggle("hide-" + box.dataset.hides, !box.checked);
    box.addEventListener("change", show);
    show(); // a reloaded page may keep the state of its checkboxes
  }

  function showAll() {
    pictures.classList.remove("few");
    more.hidden = true;
  }
  if (pictures.children.length > FEW) {
    pictures.classList.add("few");
    more.textContent = `Show all ${pictures.children.length}`;
    more.hidden = false;
    more.addEventListener("click", showAll);
  }

  function markScrolling() {
    for (const part of document.querySelectorAll(".scroll")) {
      part.toggleAttribute("data-scrolls", part.scrollWidth > part.clientWidth);
    }
  }
  addEventListener("resize", markScrolling);
  markScrolling();

  function follow() {
    const asked = /^#sort=(-?)(\w+)$/.exec(location.hash);
    if (asked) sort(asked[2], asked[1] === "-");
    const target = document.getElementById(location.hash.slice(1));
    if (target && target.parentElement === pictures && target.offsetParent === null) {
      showAll();
      target.scrollIntoView();
    }
  }
  addEventListener("hashchange", follow);
  follow();
  document.documentElement.dataset.ready = "";
})();
