// Uploads an archive as it is, and says what became of it.
"use strict";
(() => {
  const form = document.getElementById("submit");
  if (!form) return;
  const state = document.getElementById("state");
  const button = form.querySelector("button");
  const say = (text, kind) => { state.hidden = false; state.textContent = text; state.className = kind; };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const file = form.elements.archive.files[0];
    button.disabled = true;
    say("Uploading and scoring …", "");
    try {
      const answer = await fetch(`/submit?system=${encodeURIComponent(form.elements.system.value)}`, {
        method: "POST", body: file, credentials: "same-origin",
        headers: { "content-type": "application/octet-stream", "x-mark": form.dataset.mark },
      });
      const said = await answer.json();
      if (said.accepted) { say(said.verification === "waiting" ? "✓ Accepted and scored; its verification runs in the background." : "✓ Accepted and scored.", "good"); setTimeout(() => location.reload(), 800); return; }
      say(`✖ Refused: ${said.reason}`, "poor");
    } catch {
      say("✖ No connection: please try again.", "poor");
    }
    button.disabled = false;
  });
})();
