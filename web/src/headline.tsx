// The answer, before all figures: one sentence, what limits it, and the figures that it rests on.
import type { ComponentChildren } from "preact";
import type { Headline } from "./types.gen";

const LOOKS: Record<string, string> = { better: "good", worse: "worse" };

export function HeadlineBox({ headline, children }: { headline: Omit<Headline, "state"> & { state?: string }; children?: ComponentChildren }) {
  const { state = "", text, details, doubts, is_doubtful } = headline;
  return (
    <div class={`verdict ${is_doubtful ? "doubtful" : (LOOKS[state] ?? "told")}`} role={is_doubtful ? "alert" : undefined}>
      <p class="sentence">{text}.</p>
      {doubts.length > 0 && (
        <p>
          {is_doubtful ? <b>Doubtful: </b> : "Limits: "}
          {doubts.join("; ")}.
        </p>
      )}
      {details.length > 0 && (
        <ul class="plain-list">
          {details.map((detail) => (
            <li>{detail}</li>
          ))}
        </ul>
      )}
      {children}
    </div>
  );
}
