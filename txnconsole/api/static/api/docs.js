"use strict";

// Shows the server's own OpenAPI document. The console's session may try calls out: changes need
// its CSRF token, which Django keeps in a cookie.
const place = document.getElementById("operations");

function csrfToken() {
  const cookie = document.cookie.split("; ").find((each) => each.startsWith("csrftoken="));
  return cookie ? decodeURIComponent(cookie.split("=")[1]) : "";
}

window.SwaggerUIBundle({
  url: new URL(place.dataset.schema, window.location.href).href,
  domNode: place,
  deepLinking: true,
  docExpansion: "list",
  displayRequestDuration: true,
  validatorUrl: null,
  requestInterceptor(request) {
    request.headers["X-CSRFToken"] = csrfToken();
    return request;
  },
});
