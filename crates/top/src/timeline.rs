//! Where the chosen row's time went in the last intervals: a line of bars for each part that has any.
//!
//! ```text
//! web vCPU 0: timeline     now    mean  60 × 1.0 s, top = 100%
//! cost                    8.1%    7.9%  ▁▁▂▁▁▁▁▂▂▁▁▁▁▁▁
//! guest                  31.0%   30.2%  ▃▃▃▂▃▃▃▃▃▂▃▃▃▃▃     ← as many rows high as there is room for
//! ```

use crate::columns::TopColumn;
use crate::frame::RateFigures;
use crate::history::{History, KEPT};
use crate::list::{Words, elided, width};
use exitscope_model::TimePart;
use exitscope_view::{part_colour, share};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

/// Room for names of parts, and for each of the two figures.
const NAME: u16 = 20;
const SHARE: u16 = 6;

/// Intervals for which there has to be room, or there is no timeline.
const FEWEST: u16 = 24;

/// Rows that bars are high, at most.
const HIGHEST: u16 = 12;

/// Steps of a bar within a row.
const STEPS: f64 = 8.0;

/// The parts of a row's time that has any, and what it was.
pub struct PartsTimeline<'a> {
    title: Words,
    history: &'a History,
    rows: Vec<(TimePart, Option<f64>)>,
    /// Length of an interval.
    seconds: f64,
}

impl<'a> PartsTimeline<'a> {
    /// Of a row whose last interval is `figures`; none before its first.
    pub fn of(
        title: Words,
        history: Option<&'a History>,
        figures: &RateFigures,
        seconds: f64,
    ) -> Option<PartsTimeline<'a>> {
        let history = history.filter(|history| history.len() > 0)?;
        let row = |part: TimePart| (part, figures.share_of(part));
        let has_any = |row: &(TimePart, Option<f64>)| {
            row.1.is_some_and(|share| share > 0.0) || history.shares(row.0, KEPT).any(|share| share > 0.0)
        };
        let rows: Vec<_> = TopColumn::all().filter_map(TopColumn::part).map(row).filter(has_any).collect();
        (!rows.is_empty()).then_some(PartsTimeline { title, history, rows, seconds })
    }

    /// ColumnChoice that it needs, and those with which all intervals fit.
    pub fn width() -> (u16, u16) {
        let beside = NAME + 2 * (SHARE + 1) + 1;
        (beside + FEWEST, beside + KEPT as u16)
    }

    /// Rows that it takes of these: a multiple of those of its parts, and a header.
    pub fn height(&self, room: u16) -> u16 {
        let parts = self.rows.len() as u16;
        1 + parts * (room.saturating_sub(1) / parts).clamp(1, HIGHEST)
    }

    /// Draws it, if there is room for all parts.
    pub fn draw(&self, to: &mut ratatui::Frame, area: Rect) {
        let area = area.intersection(to.area());
        let high = self.height(area.height).saturating_sub(1) / self.rows.len() as u16;
        if area.width < PartsTimeline::width().0 || self.height(area.height) > area.height {
            return;
        }
        // A long title leaves fewer bars.
        let beside = self.title.width().max(NAME) + 2 * (SHARE + 1) + 1;
        let shown = usize::from(area.width.saturating_sub(beside).max(FEWEST)).min(KEPT);
        let bars_at = area.right() - shown as u16;
        let intervals = self.history.len().min(shown);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        to.buffer_mut().set_style(Rect { height: 1, ..area }, reversed);
        let mut put = |x: u16, y: u16, text: &str, room: u16, style: Style| {
            to.buffer_mut().set_stringn(x, y, text, usize::from(room), style);
        };
        let figures_at = bars_at - 1 - 2 * (SHARE + 1);
        let figure = |at: u16, text: &str| figures_at + at * (SHARE + 1) + 1 + SHARE.saturating_sub(width(text)) - 1;
        put(area.x, area.y, &self.title.fitted(figures_at - area.x), figures_at - area.x, reversed);
        for (at, title) in [(0, "now"), (1, "mean")] {
            put(figure(at, title), area.y, title, SHARE, reversed);
        }
        put(
            bars_at,
            area.y,
            &elided(&format!("{intervals} × {:.1} s, top = 100%", self.seconds), shown as u16),
            shown as u16,
            reversed,
        );
        for ((part, now), row) in self.rows.iter().zip(0..) {
            let y = area.y + 1 + row * high;
            let foot = y + high - 1;
            put(
                area.x,
                foot,
                &elided(TopColumn::Part(*part).title(), figures_at - area.x),
                figures_at - area.x,
                Style::new(),
            );
            let mean = share(self.history.mean(*part, shown));
            for (at, text) in [(0, crate::figure_text::measured(*now)), (1, mean)] {
                put(figure(at, &text), foot, &text, SHARE, Style::new());
            }
            let shares: Vec<f64> = self.history.shares(*part, shown).collect();
            for line in 0..high {
                let from_foot = f64::from(high - 1 - line);
                let bars: String = shares.iter().map(|share| bar(*share, f64::from(high), from_foot)).collect();
                let colour = Style::new().fg(Color::Indexed(part_colour(*part)));
                put(bars_at + (shown - intervals) as u16, y + line, &bars, shown as u16, colour);
            }
        }
    }
}

/// What a bar of `high` rows up to all of the time has in the row that is so far above its foot; nothing only for none.
fn bar(share: f64, high: f64, from_foot: f64) -> char {
    let most = high * STEPS;
    let steps = if share > 0.0 { (share * most).round().clamp(1.0, most) } else { 0.0 };
    let here = (steps - from_foot * STEPS).clamp(0.0, STEPS) as u64;
    crate::figure_text::bar(here, STEPS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills_its_rows_from_the_foot_and_is_empty_only_for_nothing() {
        let bars = |share| -> String { (0..4).rev().map(|row| bar(share, 4.0, f64::from(row))).collect() };
        for (share, expected) in [
            (0.0, "    "),
            (0.0001, "   ▁"),
            (0.25, "   █"),
            (0.5, "  ██"),
            (0.75, " ███"),
            (0.875, "▄███"),
            (1.0, "████"),
        ] {
            assert_eq!(bars(share), expected, "{share}");
        }
        assert_eq!([bar(0.0, 1.0, 0.0), bar(0.001, 1.0, 0.0), bar(1.0, 1.0, 0.0)], [' ', '▁', '█']);
    }

    #[test]
    fn parts_of_which_there_is_nothing_have_no_row_and_rows_grow_with_the_room() {
        let mut history = History::default();
        let figures = RateFigures { cost: Some(0.2), guest: Some(0.8), vcpu_seconds: 1.0, ..RateFigures::default() };
        assert!(PartsTimeline::of("web".into(), Some(&history), &figures, 1.0).is_none());
        history.push(&RateFigures { halted: Some(0.1), steal: Some(0.0), ..figures.clone() });
        history.push(&figures);
        let timeline = PartsTimeline::of("web".into(), Some(&history), &figures, 1.0).unwrap();
        let parts = [TimePart::Kernel, TimePart::Guest, TimePart::Halted];
        let found: Vec<TimePart> = timeline.rows.iter().map(|row| row.0).collect();
        assert_eq!(found, parts, "it was halted before");
        // Who has ended keeps what there was.
        let ended = PartsTimeline::of("web".into(), Some(&history), &RateFigures::default(), 1.0).unwrap();
        assert_eq!(ended.rows, parts.map(|part| (part, None)));
        assert_eq!([0, 4, 6, 7, 13, 99].map(|room| timeline.height(room)), [4, 4, 4, 7, 13, 37]);
    }
}
