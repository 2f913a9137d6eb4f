"use strict";
// A click on a mark shows its packet where one is. Without this script the same link leads to the list of packets.
{
  const dialog = document.getElementById("packet");
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.packet");
    if (!link || !dialog.showModal || event.ctrlKey || event.metaKey || event.shiftKey) return;
    const packet = document.getElementById(link.getAttribute("href").slice(1));
    if (!packet) return;
    event.preventDefault();
    const title = packet.querySelector("summary").cloneNode(true);
    dialog.querySelector("h2").replaceChildren(...title.childNodes);
    dialog.querySelector("div").replaceChildren(packet.querySelector(".tree").cloneNode(true));
    dialog.showModal();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
  // A link from elsewhere into the list opens what it leads to.
  const reveal = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target instanceof HTMLDetailsElement) target.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
}
