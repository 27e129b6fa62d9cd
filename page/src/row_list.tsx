/** A list of rows that are loaded when they become visible: bones before the first, and an error in its place. */
import { Fragment, h, type Child } from "./jsx";
import { Grid, type Column } from "./grid";
import type { Rows } from "./pages";
import { Bones, Empty, Problem, StaleStrip } from "./parts";

interface Properties<T> {
  of: Rows<T>;
  id: string;
  columns: Column[];
  label: (total: number) => string;
  /** That there are no rows, and the next step. */
  empty: readonly [string, string];
  cells: (row: T) => Child[];
  open: (row: T, index: number) => void;
  moved?: (index: number) => unknown;
  isOpen?: (row: T) => boolean;
  current?: number | undefined;
}

export function RowList<T>({ of: rows, id, columns, label, empty, cells, open, moved, isOpen, current }: Properties<T>) {
  const { total, trouble } = rows;
  if (total === undefined) {
    if (!trouble) return <Bones />;
    return <Problem failure={trouble.failure} nextAt={trouble.nextAt} retry={rows.reload} />;
  }
  return (
    <>
      {trouble && <StaleStrip trouble={trouble} loadedAt={rows.loadedAt} retry={rows.reload} />}
      {total === 0 ? (
        <Empty of={empty} />
      ) : (
        <div class={trouble ? "stale" : "fresh"}>
          <Grid
            id={id}
            label={label(total)}
            columns={columns}
            total={total}
            cells={(index) => drawn(rows.row(index), cells)}
            onVisible={rows.see}
            onOpen={(index) => drawn(rows.row(index), (row) => open(row, index))}
            isOpen={(index) => (isOpen && drawn(rows.row(index), isOpen)) ?? false}
            current={current}
            {...(moved && { onMove: moved })}
          />
        </div>
      )}
    </>
  );
}

/** What a function makes of a row, if it is loaded. */
function drawn<T, R>(row: T | undefined, make: (row: T) => R): R | undefined {
  return row === undefined ? undefined : make(row);
}
