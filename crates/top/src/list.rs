//! Lists of the screen in which no figure is ever cut.
//!
//! ```text
//! width of a column: of figures, what its widest needs; of words, from `least` up to what its longest needs
//! no room:           columns of the highest rank are left out whole; words end in an ellipsis; rows are counted
//! ```

use exitscope_model::encode;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

/// Letters that are left of words that are cut, at least; the ellipsis is one.
const FEWEST: u16 = 5;

/// No name of up to so many letters is cut for a histogram.
const NAME: u16 = 40;

/// The rank of histograms: they take the most room, and are left out before what matters more.
pub const BARS: u8 = 20;

/// What stands in a cell: words that may be cut, and what follows them and may not.
#[derive(Clone, Debug, Default)]
pub struct Words {
    cut: String,
    whole: String,
}

impl Words {
    pub fn new(cut: impl Into<String>, whole: impl Into<String>) -> Words {
        // Names come from command lines and threads: nothing in them may act on the screen.
        let shown = |text: String| encode::line(&text).into_owned();
        Words { cut: shown(cut.into()), whole: shown(whole.into()) }
    }

    /// Words that may be cut.
    pub fn name(cut: impl Into<String>) -> Words {
        Words::new(cut, "")
    }

    /// The same, and behind it what may not be cut.
    pub fn followed_by(mut self, whole: &str) -> Words {
        self.whole.push_str(&encode::line(whole));
        self
    }

    /// All of them.
    pub fn text(&self) -> String {
        format!("{}{}", self.cut, self.whole)
    }

    /// Columns of the terminal that they take.
    pub fn width(&self) -> u16 {
        width(&self.cut).saturating_add(width(&self.whole))
    }

    /// What it needs at least.
    fn least(&self) -> u16 {
        width(&self.cut).min(FEWEST).saturating_add(width(&self.whole))
    }

    /// The words in `room` columns.
    pub fn fitted(&self, room: u16) -> String {
        elided(&self.cut, room.saturating_sub(width(&self.whole))) + &self.whole
    }
}

impl From<String> for Words {
    /// What may not be cut.
    fn from(whole: String) -> Words {
        Words::new("", whole)
    }
}

impl From<&str> for Words {
    fn from(whole: &str) -> Words {
        Words::new("", whole)
    }
}

/// How many columns of a terminal a text takes.
pub fn width(text: &str) -> u16 {
    Span::raw(text).width().min(u16::MAX.into()) as u16
}

/// As much of a text as fits, with an ellipsis for the rest.
pub fn elided(text: &str, room: u16) -> String {
    if width(text) <= room {
        return text.to_string();
    }
    let (mut kept, mut taken) = (String::new(), 1);
    for letter in text.chars() {
        taken += width(letter.encode_utf8(&mut [0; 4]));
        if taken > room {
            break;
        }
        kept.push(letter);
    }
    if room > 0 {
        kept.push('…');
    }
    kept
}

/// A text in lines of `room` columns, broken between words.
pub fn wrapped(text: &str, room: u16) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line).saturating_add(1).saturating_add(width(word)) <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(elided(word, room)),
        }
    }
    lines
}

/// The parts that fit beside each other, in their order: those of the highest rank are left out first, that of rank 0 never.
pub fn kept<'a>(mut parts: Vec<(u8, Vec<Span<'a>>)>, room: u16) -> Line<'a> {
    let wide = |parts: &[(u8, Vec<Span>)]| parts.iter().flat_map(|part| &part.1).map(Span::width).sum::<usize>();
    while wide(&parts) > usize::from(room) {
        let Some(least) = (0..parts.len()).filter(|&at| parts[at].0 > 0).max_by_key(|&at| parts[at].0) else { break };
        parts.remove(least);
    }
    Line::from(parts.into_iter().flat_map(|part| part.1).collect::<Vec<_>>())
}

/// A column of a list.
#[derive(Clone, Debug)]
pub struct Column {
    title: Words,
    is_right: bool,
    /// As wide at least, so that the list does not jump from one interval to the next.
    least: u16,
    rank: u8,
    /// What stands in it may be cut.
    is_words: bool,
}

impl Column {
    /// A column of figures.
    pub fn figures(title: impl Into<Words>, rank: u8, least: u16) -> Column {
        Column { title: title.into(), is_right: true, least, rank, is_words: false }
    }

    /// A column of words, `least` wide if they are longer.
    pub fn words(title: impl Into<Words>, rank: u8, least: u16) -> Column {
        Column { title: title.into(), is_right: false, least, rank, is_words: true }
    }

    /// A column of histograms.
    pub fn bars(title: &str) -> Column {
        Column { title: title.into(), is_right: false, least: width(title), rank: BARS, is_words: false }
    }
}

/// Columns, of which the first is always there, and the rows that there is room for.
pub struct List {
    columns: Vec<Column>,
    rows: Vec<(Vec<Words>, Style)>,
    /// The row that is selected, among those.
    selected: Option<usize>,
    /// Rows before and behind them.
    pub hidden: (usize, usize),
}

impl List {
    /// Of `total` rows those that fit below the header into `height` lines, the selected one among them.
    pub fn new(
        columns: Vec<Column>,
        (total, selected): (usize, Option<usize>),
        height: u16,
        row: impl Fn(usize) -> (Vec<Words>, Style),
    ) -> List {
        let room = usize::from(height.saturating_sub(1));
        // One line says how many more there are.
        let shown = if total > room && room > 1 { room - 1 } else { total.min(room) };
        let first = selected.map_or(0, |at| (at + 1).saturating_sub(shown)).min(total - shown);
        List {
            columns,
            rows: (first..first + shown).map(row).collect(),
            selected: selected.and_then(|at| at.checked_sub(first)).filter(|&at| at < shown),
            hidden: (first, total - shown - first),
        }
    }

    /// Adds a row that looks like a header.
    pub fn push(&mut self, cells: Vec<Words>) {
        self.rows.push((cells, Style::new().reversed()));
    }

    /// Adds a row.
    pub fn push_row(&mut self, cells: Vec<Words>) {
        self.rows.push((cells, Style::new()));
    }

    /// Lines that it takes.
    pub fn height(&self) -> u16 {
        self.rows.len() as u16 + 1 + u16::from(self.hidden != (0, 0))
    }

    /// Columns of the terminal that the list needs for those of its own up to a rank, with all their words.
    pub fn width(&self, rank: u8) -> u16 {
        let columns = self.columns.iter().enumerate().filter(|(_, column)| column.rank <= rank);
        let wide: u32 = columns.map(|(at, _)| u32::from(self.span(at).1) + 1).sum();
        wide.saturating_sub(1).min(u16::MAX.into()) as u16
    }

    /// How wide a column is at least, and at best.
    fn span(&self, at: usize) -> (u16, u16) {
        let column = &self.columns[at];
        let cells = || self.rows.iter().filter_map(|row| row.0.get(at)).chain([&column.title]);
        let all = cells().map(Words::width).max().unwrap_or(0);
        let most = all.max(column.least);
        if !column.is_words {
            return (most, most);
        }
        let least = cells().map(Words::least).max().unwrap_or(0);
        (least.max(column.least.min(all)), all)
    }

    /// The columns that fit, and how wide each is.
    fn fitted(&self, room: u16) -> Vec<(usize, u16)> {
        let mut by_rank: Vec<usize> = (1..self.columns.len()).collect();
        by_rank.sort_by_key(|&at| self.columns[at].rank);
        let spans: Vec<(u16, u16)> = (0..self.columns.len()).map(|at| self.span(at)).collect();
        let mut fitted = vec![(0, spans[0].0.min(room))];
        let mut left = room.saturating_sub(spans[0].0);
        for at in by_rank {
            let names = if self.columns[at].rank == BARS { spans[0].1.min(NAME).saturating_sub(spans[0].0) } else { 0 };
            let wide = spans[at].0.saturating_add(1);
            if left < wide.saturating_add(names) {
                // What stands behind histograms takes less room.
                match self.columns[at].rank {
                    BARS => continue,
                    _ => break,
                }
            }
            left -= wide;
            fitted.push((at, spans[at].0));
        }
        fitted.sort_by_key(|column| column.0);
        for (at, wide) in &mut fitted {
            let more = spans[*at].1.saturating_sub(*wide).min(left);
            *wide += more;
            left -= more;
        }
        // Figures stand at the right end.
        fitted[0].1 += left;
        fitted
    }

    /// The columns for which these have no room, by number.
    pub fn left_out(&self, room: u16) -> Vec<usize> {
        let fitted = self.fitted(room);
        (0..self.columns.len()).filter(|at| fitted.iter().all(|column| column.0 != *at)).collect()
    }

    /// Draws it; `more` says what is hidden.
    pub fn draw(&self, to: &mut ratatui::Frame, area: Rect, more: Option<String>) {
        let area = area.intersection(to.area());
        let fitted = self.fitted(area.width);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let titles: Vec<Words> = self.columns.iter().map(|column| column.title.clone()).collect();
        let rows = self.rows.iter().enumerate().map(|(number, (words, style))| match self.selected == Some(number) {
            true => (words, style.patch(reversed)),
            false => (words, *style),
        });
        let mut lines = (area.y..area.bottom()).map(|y| Rect { y, height: 1, ..area });
        for ((words, style), line) in std::iter::once((&titles, reversed)).chain(rows).zip(&mut lines) {
            to.buffer_mut().set_style(line, style);
            let mut x = line.x;
            for &(at, wide) in &fitted {
                let text = words.get(at).map_or(String::new(), |words| words.fitted(wide));
                let blank = if self.columns[at].is_right { wide.saturating_sub(width(&text)) } else { 0 };
                to.buffer_mut().set_stringn(x + blank, line.y, text, usize::from(wide - blank), style);
                x = x.saturating_add(wide + 1);
            }
        }
        if let (Some(more), Some(line)) = (more, lines.next()) {
            to.render_widget(Line::from(elided(&more, area.width)), line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_by_columns_of_the_terminal_and_what_follows_them_is_not() {
        for (words, room, fitted) in [
            (Words::new("production", " (4711)"), 17, "production (4711)"),
            (Words::new("production", " (4711)"), 12, "prod… (4711)"),
            (Words::new("漢字漢字", " (7)"), 9, "漢字… (7)"),
            (Words::new("漢字漢字", " (7)"), 8, "漢… (7)"),
            (Words::name("EXTERNAL_INTERRUPT"), 1, "…"),
            (Words::name("EXTERNAL_INTERRUPT"), 0, ""),
        ] {
            assert_eq!(words.fitted(room), fitted, "{words:?} in {room}");
        }
        assert_eq!(wrapped("900 exits/s were  forced", 12), ["900 exits/s", "were forced"]);
        assert_eq!(wrapped("", 12), Vec::<String>::new());
    }

    #[test]
    fn columns_are_left_out_whole_those_of_the_highest_rank_first() {
        let columns = || {
            vec![
                Column::words("name", 0, 8),
                Column::figures("/s", 1, 4),
                Column::figures("cost", 3, 6),
                Column::figures("p99", 2, 6),
            ]
        };
        let row = |_| {
            let cells = ["page fault", "999,999,999", "100.0%", "43.2us"];
            (vec![Words::name(cells[0]), cells[1].into(), cells[2].into(), cells[3].into()], Style::new())
        };
        let list = List::new(columns(), (1, None), 2, row);
        for (room, widths) in [
            (80, &[(0, 54), (1, 11), (2, 6), (3, 6)][..]),
            (36, &[(0, 10), (1, 11), (2, 6), (3, 6)]),
            (34, &[(0, 8), (1, 11), (2, 6), (3, 6)]),
            (33, &[(0, 14), (1, 11), (3, 6)]),
            (20, &[(0, 8), (1, 11)]),
            (19, &[(0, 19)]),
            (3, &[(0, 3)]),
            (0, &[(0, 0)]),
        ] {
            assert_eq!(list.fitted(room), widths, "{room}");
        }
        assert_eq!((list.width(3), list.width(1)), (36, 22));
    }

    #[test]
    fn rows_without_room_are_counted_and_the_selected_one_is_shown() {
        let row = |at: usize| (vec![Words::name(at.to_string())], Style::new());
        for ((total, selected, height), (shown, hidden)) in [
            ((3, None, 4), (vec!["0", "1", "2"], (0, 0))),
            ((4, None, 4), (vec!["0", "1"], (0, 2))),
            ((4, Some(3), 4), (vec!["2", "3"], (2, 0))),
            ((9, Some(4), 4), (vec!["3", "4"], (3, 4))),
            ((9, Some(4), 2), (vec!["4"], (4, 4))),
            ((9, Some(4), 1), (vec![], (5, 4))),
            ((0, None, 0), (vec![], (0, 0))),
        ] {
            let list = List::new(vec![Column::words("", 0, 1)], (total, selected), height, row);
            let rows: Vec<String> = list.rows.iter().map(|row| row.0[0].fitted(9)).collect();
            assert_eq!(
                (rows, list.hidden),
                (shown.iter().map(|row| row.to_string()).collect(), hidden),
                "{total} {height}"
            );
        }
    }
}
