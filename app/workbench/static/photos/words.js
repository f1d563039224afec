// Times in words.

/** Return a duration in words, as an estimate. */
export function duration(seconds) {
  if (seconds < 1) return "under 1 s";
  if (seconds < 90) return `about ${Math.round(seconds)} s`;
  return seconds < 5400 ? `about ${Math.round(seconds / 60)} min` : `about ${(seconds / 3600).toFixed(1)} h`;
}

/** Return a rate in images per second. */
export const pace = rate => `${rate < 10 ? rate.toFixed(1) : Math.round(rate).toLocaleString("en")} images/s`;
