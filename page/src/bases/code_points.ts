/** `CodePoints`: from the spans of the contract, which count code points, to JavaScript's strings, which count UTF-16. */

const STEP = 4096;

export class CodePoints {
  /** The index in UTF-16 of each 4096th code point; empty if both counts are the same. */
  private readonly steps: number[] = [];
  private readonly isPlain: boolean;

  constructor(private readonly text: string) {
    this.isPlain = !/[\u{10000}-\u{10ffff}]/u.test(text);
    if (this.isPlain) return;
    let count = 0;
    for (let at = 0; at < text.length; at += this.width(at), count += 1) {
      if (count % STEP === 0) this.steps.push(at);
    }
  }

  /** The index in UTF-16 of a code point. */
  utf16(index: number): number {
    if (this.isPlain) return Math.min(index, this.text.length);
    const step = Math.min(Math.floor(index / STEP), this.steps.length - 1);
    let at = this.steps[step] ?? 0;
    for (let left = index - step * STEP; left > 0 && at < this.text.length; left -= 1) at += this.width(at);
    return at;
  }

  /** The code point of an index in UTF-16. */
  index(at: number): number {
    return this.isPlain ? at : at - (this.text.slice(0, at).match(/[\u{10000}-\u{10ffff}]/gu)?.length ?? 0);
  }

  private width(at: number): number {
    return (this.text.codePointAt(at) ?? 0) > 0xffff ? 2 : 1;
  }
}
