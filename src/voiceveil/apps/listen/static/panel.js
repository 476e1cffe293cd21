// A panel: excerpts are heard and put into groups, by dragging, by buttons or by keys; every move is sent at once.
"use strict";
(() => {
  const panel = document.getElementById("panel");
  if (!panel) return;
  const words = panel.dataset;
  const offline = document.getElementById("offline");
  const live = document.getElementById("live");
  const put = document.getElementById("put");
  const button = document.getElementById("finish");
  const player = document.getElementById("player");
  const chips = [...panel.querySelectorAll(".chip")];
  const began = Date.now();
  let number = Number(words.moves);
  let plays = 0;
  let chosen = null;

  const base = () => ({ mark: words.mark, item: words.item });
  const trouble = (is) => { offline.hidden = !is; };
  const home = () => location.replace("/");
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, key) => values[key]);
  const place = (chip) => Number(chip.closest("[data-cluster]").dataset.cluster);
  const left = () => chips.filter((chip) => place(chip) === 0).length;

  function describe() {
    for (const chip of chips) {
      const where = chip.closest("[data-cluster]").querySelector("h2").textContent;
      chip.setAttribute("aria-label", `${chip.dataset.name}, ${where}`);
    }
    button.disabled = left() > 0;
  }

  function choose(chip) {
    if (chosen) chosen.setAttribute("aria-pressed", "false");
    chosen = chip;
    chip.setAttribute("aria-pressed", "true");
    put.querySelector("p").textContent = fill(words.put, { n: chips.indexOf(chip) + 1 });
    for (const one of put.querySelectorAll("button")) one.disabled = false;
  }

  function play(chip) {
    choose(chip);
    for (const one of chips) one.classList.remove("playing");
    player.src = chip.dataset.src;
    plays += 1;
    chip.classList.add("playing");
    player.play().catch(() => chip.classList.remove("playing"));
  }
  for (const event of ["ended", "error", "pause"]) {
    player.addEventListener(event, () => {
      for (const chip of chips) if (chip.classList.contains("playing")) {
        chip.classList.remove("playing");
        if (event === "ended") chip.classList.add("heard");
      }
    });
  }

  async function move(chip, cluster) {
    if (place(chip) === cluster) return;
    const focused = document.activeElement === chip;
    const into = panel.querySelector(`[data-cluster="${cluster}"] .chips`);
    into.append(chip.parentElement);
    if (focused) chip.focus();
    choose(chip);
    describe();
    const excerpt = chips.indexOf(chip);
    live.textContent = fill(words.moved, { n: excerpt + 1, group: cluster, left: left() });
    const status = await Sender.send("/move", { ...base(), number: number++, excerpt, cluster }, trouble);
    if (status !== 200) home();
  }

  // Dragging, by mouse, pen or finger. What does not move far is a click.
  let drag = null;
  const under = (event) => {
    const found = document.elementFromPoint(event.clientX, event.clientY);
    const spot = found && found.closest(".place");
    return spot && Number(spot.dataset.cluster) > 0 ? spot : null;
  };
  const mark = (spot) => { for (const one of panel.querySelectorAll(".place")) one.classList.toggle("over", one === spot); };
  for (const chip of chips) {
    chip.addEventListener("pointerdown", (event) => {
      if (event.button === 0) drag = { chip, id: event.pointerId, x: event.clientX, y: event.clientY, far: false };
    });
    chip.addEventListener("click", (event) => {
      if (chip.dataset.dragged) { delete chip.dataset.dragged; event.preventDefault(); return; }
      play(chip);
    });
    chip.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) return;
      if (/^[1-4]$/.test(event.key)) { event.preventDefault(); move(chip, Number(event.key)); }
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (step) {
        event.preventDefault();
        const shown = [...panel.querySelectorAll(".chip")];
        shown[(shown.indexOf(chip) + step + shown.length) % shown.length].focus();
      }
    });
  }
  addEventListener("pointermove", (event) => {
    if (!drag || event.pointerId !== drag.id) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.far && Math.hypot(dx, dy) < 7) return;
    drag.far = true;
    drag.chip.classList.add("dragging");
    drag.chip.style.transform = `translate(${dx}px, ${dy}px)`;
    mark(under(event));
  });
  function drop(event) {
    if (!drag || event.pointerId !== drag.id) return;
    const { chip, far } = drag;
    const spot = far && event.type === "pointerup" ? under(event) : null;
    chip.style.transform = "";
    chip.classList.remove("dragging");
    mark(null);
    drag = null;
    if (!far) return;
    chip.dataset.dragged = "yes";
    setTimeout(() => { delete chip.dataset.dragged; }, 0);
    if (spot) move(chip, Number(spot.dataset.cluster));
  }
  addEventListener("pointerup", drop);
  addEventListener("pointercancel", drop);

  put.addEventListener("click", (event) => {
    const to = event.target.dataset.put;
    if (to && chosen) move(chosen, Number(to));
  });
  button.addEventListener("click", async () => {
    button.disabled = true;
    const status = await Sender.send("/next", { ...base(), plays, seconds: (Date.now() - began) / 1000 }, trouble);
    if (status === 422) describe();
    else home();
  });
  describe();
})();
