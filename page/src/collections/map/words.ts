/** The words of the map. They are loaded with it. */
import { formatted, words } from "../../words";

type Pair = readonly [string, string];

export const say = {
  documents: "Documents",
  noColour: "one colour",
  colour: "Colour by",
  points: "Points",
  question: "Question",
  documentId: "Document id",
  show: "Show",
  again: "Map again",
  asOf: (time: string): string => `As of ${time}`,
  label: (count: number): string => `Map of ${words.countLabel(count)}. The list beside it has the same documents.`,
  arranging: "Arranging the documents by their nearest neighbours",
  arranged: "Near points are similar. The axes have no meaning.",
  sample: (points: number, total: number): string => `${formatted(points)} of ${words.countLabel(total)}, evenly over the collection`,
  hint: "Point at a document to read it, click to open it, draw around documents to list them.",
  chosen: (count: number): string => `${words.countLabel(count)} of the map`,
  nearOf: (count: number): string => `${words.countLabel(count)}, nearest first`,
  noneNear: ["No near document is on the map", "A map with more points has more of the collection."] as Pair,
  noneWithin: ["No document is within the line", ""] as Pair,
  showAll: "Show all",
  legend: "Legend",
  noValue: "no value",
  otherValues: "other values",
  range: (low: string, high: string): string => (low === high ? low : `${low} to ${high}`),
};
