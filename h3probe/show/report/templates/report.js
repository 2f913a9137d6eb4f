"use strict";
// A click on a mark shows its packet where one is. Without this script the same link leads to the list of packets,
// where the browser opens what it leads to.
{
  const dialog = document.getElementById("packet");
  document.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
    const link = event.target.closest("a.packet");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const tree = document.getElementById(link.getAttribute("href").slice(1));
    const summary = tree.closest("details").querySelector("summary").cloneNode(true);
    const shown = tree.cloneNode(true);
    shown.removeAttribute("id");
    dialog.querySelector("h2").replaceChildren(...summary.childNodes);
    dialog.querySelector("div").replaceChildren(shown);
    dialog.showModal();
    event.preventDefault();
  });
}
