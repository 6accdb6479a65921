import type { View } from "../view";
import { h, put } from "../dom";

export const item: View = (root) => {
  put(root, h("h1", {}, "Item"), h("p", {}, "Not there yet."));
};
