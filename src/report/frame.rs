//! A run under way as lines for a terminal of any width: one for each stage that computes, with a bar where its
//! end is known, and one for the whole.

use std::time::Duration;

use textwrap::core::display_width;

use crate::draw::table::shortened;
use crate::report::watch::Watched;

/// Stages that have a line of their own.
const STAGES_MAX: usize = 8;
/// Columns of names and bars, where there is room.
const NAME_WIDTH_MAX: usize = 28;
const BAR_WIDTH_MAX: usize = 24;
/// A bar that is shorter says nothing.
const BAR_WIDTH_MIN: usize = 6;
const GAP: &str = "  ";

/// The lines for a terminal of so many columns and rows; none is wrapped, and they never fill it.
pub fn frame(watched: &Watched, (columns, rows): (usize, usize), now: Duration) -> Vec<String> {
    // A terminal may go to the next line behind its last column.
    let width = columns.saturating_sub(1);
    let all = watched.running();
    // One line for the whole, one for those that are not shown, one for the cursor of what follows.
    let shown = all.len().min(STAGES_MAX).min(rows.saturating_sub(3));
    let stages: Vec<_> = all[..shown]
        .iter()
        .map(|running| {
            let status = running.status(now);
            (running.stage.as_str(), status.share, status.words.join(GAP))
        })
        .collect();
    let names = stages.iter().map(|(name, ..)| display_width(name)).max().unwrap_or(0);
    let names = names.min(NAME_WIDTH_MAX).min(width / 3);
    let texts = stages.iter().map(|(.., text)| display_width(text)).max().unwrap_or(0);
    let room = width.saturating_sub(names + texts + 3 * GAP.len());
    let has_bars = stages.iter().any(|(_, share, _)| share.is_some()) && room >= BAR_WIDTH_MIN;
    let bars = if has_bars { room.min(BAR_WIDTH_MAX) } else { 0 };
    let mut lines: Vec<String> = stages
        .iter()
        .map(|(name, share, text)| {
            let name = shortened(name, names);
            let pad = " ".repeat(names - display_width(&name));
            let bar = match (share, bars) {
                (_, 0) => String::new(),
                (Some(share), bars) => bar(*share, bars) + GAP,
                (None, bars) => " ".repeat(bars) + GAP,
            };
            format!("{GAP}{name}{pad}{GAP}{bar}{text}")
        })
        .collect();
    match all.len() - shown {
        0 => {}
        1 => lines.push(format!("{GAP}and 1 more stage")),
        more => lines.push(format!("{GAP}and {more} more stages")),
    }
    let share = watched.share(now);
    let text = format!("{:>2} %{GAP}{}", (share * 100.0) as u32, watched.words(now).join(GAP));
    let room = width.saturating_sub(display_width(&text) + GAP.len());
    lines.push(match room >= BAR_WIDTH_MIN {
        true => bar(share, room.min(BAR_WIDTH_MAX)) + GAP + &text,
        false => text,
    });
    lines.iter().map(|line| shortened(line, width)).collect()
}

fn bar(share: f64, width: usize) -> String {
    let done = ((share.clamp(0.0, 1.0) * width as f64) as usize).min(width);
    "━".repeat(done) + &"─".repeat(width - done)
}
