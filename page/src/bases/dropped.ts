/** The files of a drop or of a choice, with their paths within the folders that were dropped. */
import type { NewFile } from "./uploads";

export interface Dropped {
  files: NewFile[];
  /** Number of files whose name begins with a dot, such as `.DS_Store`. */
  hidden: number;
}

/** The files of an input; with the path of each, if a folder was chosen. */
export function chosenFiles(list: FileList): Dropped {
  return withoutHidden([...list].map((file) => ({ name: file.webkitRelativePath || file.name, file })));
}

/** The files of a drop, and of the folders in it. */
export async function droppedFiles(transfer: DataTransfer): Promise<Dropped> {
  // The list of items is empty after the first pause.
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry());
  const found: NewFile[] = [];
  for (const entry of entries) if (entry) await collect(entry, found);
  if (entries.every((entry) => entry === null)) found.push(...[...transfer.files].map((file) => ({ name: file.name, file })));
  return withoutHidden(found);
}

function withoutHidden(files: NewFile[]): Dropped {
  const shown = files.filter(({ name }) => !name.slice(name.lastIndexOf("/") + 1).startsWith("."));
  return { files: shown, hidden: files.length - shown.length };
}

async function collect(entry: FileSystemEntry, found: NewFile[]): Promise<void> {
  if (entry.isFile) {
    const file = await new Promise<File | undefined>((resolve) => {
      (entry as FileSystemFileEntry).file(resolve, () => resolve(undefined));
    });
    if (file) found.push({ name: entry.fullPath.replace(/^\//u, ""), file });
    return;
  }
  const reader = (entry as FileSystemDirectoryEntry).createReader();
  // A call returns a part of the entries, and none after the last one.
  for (;;) {
    const part = await new Promise<FileSystemEntry[]>((resolve) => reader.readEntries(resolve, () => resolve([])));
    if (part.length === 0) return;
    for (const each of part) await collect(each, found);
  }
}
