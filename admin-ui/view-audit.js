// view-audit.js: the audit trail: each change, with its author, newest first.

import { AskedTable } from "./asked-table.js";
import { badge, word } from "./dom.js";
import { moment } from "./units.js";

export const auditView = (parent) => new AskedTable(parent, {
  at: "/audit?limit=50", list: "audit", label: "Audit trail",
  key: (line) => line.id, empty: "Nothing was changed yet.",
  columns: [
    word("At", (line) => moment(line.at), true),
    word("Who", (line) => [line.who ?? "–", line.process].filter(Boolean).join(" ")),
    word("By", (line) => line.via),
    word("From", (line) => line.address ?? "many"),
    word("Did", (line) => line.action),
    word("To", (line) => line.subject ?? ""),
    { title: "Answer", fill: (cell, line) => badge(cell, String(line.status),
        line.status < 400 ? "ok" : "warning") },
    word("Times", (line) => line.times > 1 ?
      `${line.times}, until ${moment(line.last_at)}` : ""),
  ] });
