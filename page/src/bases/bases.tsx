/** The area Knowledge bases: their list, a new one, one of them, and a document of it. */
import { h } from "../jsx";
import { route } from "../route";
import { mark } from "../stored";
import { BaseView } from "./base";
import { BaseList } from "./list";
import { DocumentView } from "./document";
import { NewBase } from "./new_base";

export default function Bases() {
  const [, id, tab, name] = route.value.path;
  if (id === undefined) return <BaseList />;
  if (id === "new") return <NewBase />;
  if (tab === "documents" && name !== undefined) return <DocumentView key={`${id}/${name}`} id={id} name={mark(name)} />;
  return <BaseView key={id} id={id} tab={tab ?? "documents"} />;
}
