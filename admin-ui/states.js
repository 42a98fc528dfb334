// states.js: one word, one tone and one mark for every state, the same in all
// views.  A tone is never the only sign.

export function memberState(member) {
  if (member.state === "out")
    return { word: "out", tone: "error", mark: "✕" };
  if (member.failed)
    return { word: `${member.state}, failed`, tone: "error", mark: "✕" };
  if (!member.alive)
    return { word: `${member.state}, silent`, tone: "warning", mark: "?" };
  if (member.state === "in-sync")
    return member.suspect
      ? { word: "in-sync, slow", tone: "warning", mark: "?" }
      : { word: "in-sync", tone: "ok", mark: "✓" };
  return { word: member.state, tone: "warning", mark: "…" };
}

// Can it become a member?
export const isFree = (disk) =>
  disk.state === "serving" && !disk.array && !disk.releasing;

export function arrayTone(state) {
  return { ready: "ok", creating: "quiet", deleting: "quiet",
           degraded: "warning", rebuilding: "warning" }[state] ?? "error";
}
