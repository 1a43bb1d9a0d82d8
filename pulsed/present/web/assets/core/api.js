// Requests to the JSON API. All addresses are relative to the page, so that any path prefix works.

class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // 0: no response
  }
}

export function address(path, query = {}) {
  const url = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) url.searchParams.set(name, value);
  }
  return url;
}

/** Returns a JSON document; throws ApiError. */
export async function getJson(path, query, { signal, timeout = 20000 } = {}) {
  const limit = AbortSignal.timeout(timeout);
  let response, text;
  try {
    response = await fetch(address(path, query), { signal: signal ? AbortSignal.any([signal, limit]) : limit });
    text = await response.text();
  } catch (error) {
    throw new ApiError(0, error.name === "TimeoutError" ? "no response in time" : "no connection");
  }
  let document_ = null;
  try {
    document_ = JSON.parse(text);
  } catch {
    if (response.ok) throw new ApiError(response.status, "the response is not JSON");
  }
  if (!response.ok) throw new ApiError(response.status, document_?.error ?? `status ${response.status}`);
  return document_;
}
