// view-node-tokens.js: tokens by which a host may still enroll.

import { act, buttons } from "./action.js";
import { AskedTable } from "./asked-table.js";
import { word } from "./dom.js";
import { cancelNodeToken } from "./requests.js";
import { moment } from "./units.js";

export function nodeTokensView(parent, changed) {
  const view = new AskedTable(parent, { at: "/node-tokens",
    list: "node_tokens", label: "Tokens for hosts", changed,
    key: (token) => token.id,
    empty: "None is open. “Enroll a node…” on the overview makes one.",
    columns: [
      word("For", (token) => token.node ?? "a new host", true),
      word("Until", (token) => moment(token.expires_at)),
      word("Made", (token) => moment(token.created_at)),
      word("Made by", (token) => token.created_by ?? "–"),
      buttons([{ label: "Cancel", press: async (token) => {
          if (await act(cancelNodeToken(token)))
            view.again();
        } }]),
    ] });
  return view;
}
