/** Whether a reply was helpful, and a comment, which the gateway keeps if it keeps contexts. */
import { useState } from "preact/hooks";
import { h } from "../jsx";
import { gateway } from "../api";
import { useAttempts } from "../parts";
import { access } from "../session";
import { chat, type Turn } from "./chat";
import { say } from "./words";

const MAX_COMMENT = 4096;

export function Feedback({ turn }: { turn: Turn }) {
  const [given, setGiven] = useState<boolean>();
  const [comment, setComment] = useState("");
  const [state, setState] = useState("");
  const { problem, run } = useAttempts();
  const keepsComments = Boolean(access.value && "contextsKept" in access.value && access.value.contextsKept);
  async function give(helpful: boolean): Promise<void> {
    setState("");
    await gateway("post", "/conversations/{conversation_id}/feedback", {
      path: { conversation_id: chat.conversation },
      body: { requestId: turn.requestId, helpful, comment: comment.trim() },
    });
    setGiven(helpful);
    setState(say.feedbackGiven);
  }
  return (
    <div class="stack tight">
      <div class="row" role="group" aria-label={say.feedback}>
        {[true, false].map((helpful) => (
          <button key={String(helpful)} type="button" aria-pressed={given === helpful} onClick={() => void run(() => give(helpful))}>
            {helpful ? say.helpful : say.notHelpful}
          </button>
        ))}
        <span class="fine" role="status">
          {state}
        </span>
      </div>
      {keepsComments && given !== undefined && (
        <form class="form-row" onSubmit={(event) => void run(() => give(given), event)}>
          <label class="field">
            <span>{say.comment}</span>
            <input maxLength={MAX_COMMENT} value={comment} onInput={(event) => setComment(event.currentTarget.value)} />
          </label>
          <button type="submit" disabled={!comment.trim()}>
            {say.sendComment}
          </button>
        </form>
      )}
      {problem}
    </div>
  );
}
