/** The area Collections: their list, and one of them. */
import { h } from "../jsx";
import { route } from "../route";
import { mark } from "../stored";
import { CollectionList } from "./list";
import { CollectionView } from "./collection";

export default function Collections() {
  const [, name, tab] = route.value.path;
  return name === undefined ? <CollectionList /> : <CollectionView key={name} name={mark(name)} tab={tab ?? "documents"} />;
}
