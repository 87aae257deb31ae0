//! Charts, drawn on the server as SVG.
//!
//! A plot holds bars and lines only and no text, so that it can be stretched to any width; labels stand around
//! it as HTML. Colours are stand-ins that the stylesheet replaces, so that a plot follows light and dark. All
//! arithmetic is in whole millionths and pixels.

use ledger::Credits;
use plotters::prelude::{DrawingBackend, RGBColor, SVGBackend};

/// Units of the drawing; the page stretches them.
const DAY_WIDTH: i32 = 20;
const HEIGHT: i32 = 160;
/// Between two bars.
const GAP: i32 = 4;

/// Series that are told apart; more are added up under the last.
pub const SERIES_MAX: usize = 6;

const GRID: RGBColor = RGBColor(0, 0, 16);
const AXIS: RGBColor = RGBColor(0, 0, 17);

/// The stand-in of a series, `#000001` and on.
fn stand_in(series: usize) -> RGBColor {
    RGBColor(0, 0, u8::try_from(series.min(SERIES_MAX - 1) + 1).unwrap_or(1))
}

/// A drawn plot and the values its upper and lower edge stand for.
pub struct Plot {
    pub svg: String,
    pub top: Credits,
    pub bottom: Credits,
}

/// Stacked bars, one for each day, with the parts in the order of the series. Parts below zero hang from the
/// zero line. `None` when there is nothing to draw.
pub fn stacked_days(title: &str, description: &str, days: &[Vec<Credits>]) -> Option<Plot> {
    let sum = |day: &Vec<Credits>, wanted: fn(i128) -> bool| {
        day.iter().map(|part| part.micros()).filter(|micros| wanted(*micros)).sum::<i128>()
    };
    let highest = days.iter().map(|day| sum(day, |micros| micros > 0)).max().unwrap_or(0);
    let lowest = days.iter().map(|day| sum(day, |micros| micros < 0)).min().unwrap_or(0);
    let scale = Scale { top: round_up(highest), bottom: -round_up(-lowest) };
    if scale.top == scale.bottom {
        return None;
    }
    let width = DAY_WIDTH * i32::try_from(days.len()).ok()?;
    let mut drawing = String::new();
    draw(&mut drawing, width, days, &scale).ok()?;
    let inner = drawing.split_once('>').map(|(_, inner)| inner)?;
    let (title, description) = (escaped(title), escaped(description));
    let svg = format!(
        "<svg viewBox=\"0 0 {width} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" aria-labelledby=\"usage-title\" aria-describedby=\"usage-desc\">\
         <title id=\"usage-title\">{title}</title><desc id=\"usage-desc\">{description}</desc>{inner}"
    );
    Some(Plot {
        svg,
        top: Credits::from_micros(scale.top).ok()?,
        bottom: Credits::from_micros(scale.bottom).ok()?,
    })
}

struct Scale {
    top: i128,
    bottom: i128,
}

impl Scale {
    fn y(&self, micros: i128) -> i32 {
        let span = (self.top - self.bottom).max(1);
        i32::try_from(i128::from(HEIGHT) * (self.top - micros) / span).unwrap_or(0)
    }
}

type Drawn = Result<(), plotters::drawing::DrawingAreaErrorKind<std::io::Error>>;

fn draw(into: &mut String, width: i32, days: &[Vec<Credits>], scale: &Scale) -> Drawn {
    let size = (u32::try_from(width).unwrap_or(0), HEIGHT.unsigned_abs());
    let mut backend = SVGBackend::with_string(into, size);
    let middle = scale.y((scale.top + scale.bottom) / 2);
    backend
        .draw_line((0, 0), (width, 0), &GRID)
        .map_err(plotters::drawing::DrawingAreaErrorKind::BackendError)?;
    backend
        .draw_line((0, middle), (width, middle), &GRID)
        .map_err(plotters::drawing::DrawingAreaErrorKind::BackendError)?;
    let mut left = GAP / 2;
    for day in days {
        draw_day(&mut backend, left, day, scale)?;
        left += DAY_WIDTH;
    }
    let zero = scale.y(0);
    backend
        .draw_line((0, zero), (width, zero), &AXIS)
        .map_err(plotters::drawing::DrawingAreaErrorKind::BackendError)?;
    backend.present().map_err(plotters::drawing::DrawingAreaErrorKind::BackendError)
}

/// The parts of one day, stacked away from zero on both sides. A part is at least one unit high.
fn draw_day(backend: &mut SVGBackend, left: i32, day: &[Credits], scale: &Scale) -> Drawn {
    let (mut above, mut below) = (0_i128, 0_i128);
    for (series, part) in day.iter().enumerate() {
        let micros = part.micros();
        let (from, to) = if micros > 0 { (above, above + micros) } else { (below + micros, below) };
        match micros {
            0 => continue,
            1.. => above = to,
            _ => below = from,
        }
        let (upper, lower) = (scale.y(to), scale.y(from));
        let corners = ((left, upper.min(lower - 1)), (left + DAY_WIDTH - GAP, lower));
        backend
            .draw_rect(corners.0, corners.1, &stand_in(series), true)
            .map_err(plotters::drawing::DrawingAreaErrorKind::BackendError)?;
    }
    Ok(())
}

/// The next 1, 2 or 5 times a power of ten.
fn round_up(micros: i128) -> i128 {
    if micros <= 0 {
        return 0;
    }
    let mut power = 1_i128;
    loop {
        if let Some(round) = [1, 2, 5].into_iter().map(|step| step * power).find(|round| *round >= micros) {
            return round;
        }
        power *= 10;
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::samples::credits;

    #[test]
    fn two_models_of_three_quarters_fill_three_quarters_of_a_scale_of_two() {
        let day = vec![credits("0.75"), credits("0.75")];
        let plot = stacked_days("Usage", "Two days", &[day.clone(), day]).unwrap();
        assert_eq!((plot.top, plot.bottom), (credits("2"), credits("0")));
        // 1.5 of 2 is 120 of 160: the first part lies at 100 to 160, the second above it.
        assert!(plot.svg.contains("<rect x=\"2\" y=\"100\" width=\"16\" height=\"60\""), "{}", plot.svg);
        assert!(plot.svg.contains("<rect x=\"22\" y=\"40\" width=\"16\" height=\"60\""), "{}", plot.svg);
    }

    #[test]
    fn what_is_too_small_to_see_is_still_drawn() {
        let plot = stacked_days("Usage", "", &[vec![credits("0.000001")], vec![credits("1000")]]).unwrap();
        assert!(plot.svg.contains("<rect x=\"2\" y=\"159\" width=\"16\" height=\"1\""), "{}", plot.svg);
    }

    #[test]
    fn days_on_which_more_came_back_than_was_used_hang_below() {
        let plot = stacked_days("Usage", "", &[vec![credits("-3")], vec![credits("5")]]).unwrap();
        assert_eq!((plot.top, plot.bottom), (credits("5"), credits("-5")));
        assert!(plot.svg.contains("<rect x=\"2\" y=\"80\" width=\"16\" height=\"48\""), "{}", plot.svg);
    }

    #[test]
    fn words_in_a_plot_are_escaped_and_nothing_makes_no_plot() {
        let plot = stacked_days("<b>&", "", &[vec![credits("1")]]).unwrap();
        assert!(plot.svg.contains("&lt;b&gt;&amp;"), "{}", plot.svg);
        assert!(stacked_days("", "", &[vec![Credits::ZERO]]).is_none());
        assert!(stacked_days("", "", &[]).is_none());
    }

    #[test]
    fn scales_end_at_round_numbers() {
        for (given, end) in [(0, 0), (1, 1), (3, 5), (5, 5), (6, 10), (1_500_000, 2_000_000), (-4, 0)] {
            assert_eq!(round_up(given), end);
        }
    }
}
