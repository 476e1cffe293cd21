// An item with recordings and questions: each answer is sent as soon as it is chosen.
"use strict";
(() => {
  const form = document.getElementById("item");
  if (!form) return;
  const words = form.dataset;
  const offline = document.getElementById("offline");
  const button = form.querySelector("button[type=submit]");
  const tracks = [...form.querySelectorAll("audio")];
  const began = Date.now();
  const heard = new Set();
  let plays = 0;

  const hidden = (name) => form.querySelector(`input[name=${name}]`).value; // `elements.item` is a method
  const base = () => ({ mark: hidden("mark"), item: hidden("item") });
  const trouble = (is) => { offline.hidden = !is; };
  const home = () => location.replace("/");

  // Recordings: one at a time, and questions about them once they were heard.
  function unlock() {
    for (const set of form.querySelectorAll("fieldset")) {
      const needs = (set.dataset.needs || "").split(" ").filter(Boolean).map(Number);
      const answered = set.querySelector("input:checked") !== null;
      set.disabled = !answered && !needs.every((n) => heard.has(n));
    }
    const hint = document.getElementById("hint");
    if (hint) hint.hidden = [...form.querySelectorAll("fieldset")].every((set) => !set.disabled);
  }
  tracks.forEach((audio, n) => {
    const note = audio.parentElement.querySelector(".failed");
    audio.addEventListener("play", () => {
      plays += 1;
      for (const other of tracks) if (other !== audio) other.pause();
    });
    audio.addEventListener("ended", () => {
      heard.add(n);
      audio.parentElement.classList.add("heard");
      unlock();
    });
    audio.addEventListener("error", () => { note.hidden = false; });
    note.querySelector("button").addEventListener("click", () => { note.hidden = true; audio.load(); });
  });
  unlock();

  function state(set, text, kind) {
    const line = set.querySelector(".state");
    line.textContent = text;
    line.className = `state ${kind}`;
  }
  form.addEventListener("change", async (event) => {
    const set = event.target.closest("fieldset");
    if (!set) return;
    state(set, words.saving, "busy");
    const value = event.target.value;
    const status = await Sender.send("/answer", { ...base(), [event.target.name]: value }, trouble);
    if (status === 409 || status === 403) { home(); return; }
    if (set.querySelector("input:checked").value === value) state(set, status === 200 ? `✓ ${words.saved}` : `${status}`, "");
  });

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const open = [...form.querySelectorAll("fieldset")].filter((set) => !set.querySelector("input:checked"));
    for (const set of open) state(set, set.disabled ? words.listen : words.missing, "wrong");
    if (open.length) {
      (open[0].disabled ? tracks[0] : open[0].querySelector("input")).focus();
      return;
    }
    button.disabled = true;
    const given = Object.fromEntries([...form.querySelectorAll("input:checked")].map((one) => [one.name, one.value]));
    const status = await Sender.send("/next", { ...base(), ...given, plays, seconds: (Date.now() - began) / 1000 }, trouble);
    if (status === 200 || status === 409 || status === 403) home();
    else button.disabled = false;
  });
})();
