{% load static %}// Shows the kept card when a page cannot be fetched (txnconsole/console/views/offline.py).

const CARD = "{% url 'console:offline' %}";
const KEPT = [
  CARD,
  "{% static 'css/tokens.css' %}",
  "{% static 'css/base.css' %}",
  "{% static 'css/shell.css' %}",
  "{% static 'css/components.css' %}",
  "{% static 'css/alone.css' %}",
  "{% static 'css/print.css' %}",
];

addEventListener("install", (event) => {
  skipWaiting();
  event.waitUntil(caches.delete("offline").then(() => caches.open("offline")).then((kept) => kept.addAll(KEPT)));
});

addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => caches.match(CARD)));
  else if (request.destination === "style") event.respondWith(fetch(request).catch(() => caches.match(request)));
});
