//! What a run came to: one JSON object, or the tables of `docs/performance.md`.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::bench::cases::{Case, CaseRun};
use crate::bench::figures::{divided, mean, median, ratio};
use crate::bench::floors::FloorRun;
use crate::bench::history::History;
use crate::bench::statements::Statements;

/// The whole report. A ratio is the median of its rounds, each over the mean of the floors just before and after.
#[derive(Debug, Default, serde::Serialize)]
pub struct Report {
    pub spread_ratio: Option<f64>,
    pub hot_ratio: Option<f64>,
    /// Commands a second over accounts a second of the floor.
    pub batch_ratio: Option<f64>,
    pub pair_ratio: Option<f64>,
    /// How many times as long as the bare statement; less is better.
    pub lone_latency_ratio: Option<f64>,
    pub peak_memory_mib: Option<f64>,
    /// On an instance whose tables were never analysed, over the medians of the floors.
    pub fresh_ratios: BTreeMap<Case, f64>,
    pub rounds: BTreeMap<Case, Vec<Round>>,
    pub fresh: BTreeMap<Case, CaseRun>,
    pub history: Option<History>,
    /// Counted apart, so that counting costs the measured runs nothing.
    pub statements: Option<BTreeMap<Case, Statements>>,
    pub setting: Setting,
}

/// One case between two runs of its floor.
#[derive(Debug, serde::Serialize)]
pub struct Round {
    pub ratio: f64,
    pub daybook: CaseRun,
    pub before: FloorRun,
    pub after: FloorRun,
}

/// Under which conditions all of it was measured.
#[derive(Debug, Default, serde::Serialize)]
pub struct Setting {
    pub postgres: String,
    pub processors: usize,
    pub seconds: u64,
    pub rounds: usize,
    /// Runs in which other programs used more than 0.15 processors.
    pub disturbed_runs: usize,
    pub load_average_before: Option<f64>,
}

impl Round {
    pub fn new(case: Case, daybook: CaseRun, before: FloorRun, after: FloorRun) -> Self {
        let ratio = ratio_of(case, daybook.operations_per_s, mean(before.per_s, after.per_s));
        Self { ratio, daybook, before, after }
    }
}

fn ratio_of(case: Case, daybook_per_s: f64, floor_per_s: f64) -> f64 {
    match case {
        // One after another, so rates are the inverse of latencies.
        Case::Lone => ratio(floor_per_s, daybook_per_s),
        _ => ratio(daybook_per_s, floor_per_s),
    }
}

impl Report {
    /// Works out the medians, once all rounds are there.
    pub fn conclude(&mut self) {
        let ratio_of_case = |case: Case| {
            let rounds = self.rounds.get(&case)?;
            Some(median(rounds.iter().map(|round| round.ratio)))
        };
        self.spread_ratio = ratio_of_case(Case::Spread);
        self.hot_ratio = ratio_of_case(Case::Hot);
        self.batch_ratio = ratio_of_case(Case::Batch);
        self.pair_ratio = ratio_of_case(Case::Pair);
        self.lone_latency_ratio = ratio_of_case(Case::Lone);
        let fresh = self.fresh.iter().filter_map(|(case, run)| {
            let floor = median(
                self.rounds.get(case)?.iter().flat_map(|round| [round.before.per_s, round.after.per_s]),
            );
            Some((*case, ratio_of(*case, run.operations_per_s, floor)))
        });
        self.fresh_ratios = fresh.collect();
        let peaks = self.runs().filter_map(|run| run.peak_memory_bytes);
        let peaks = peaks.chain(self.history.iter().filter_map(|history| history.peak_memory_bytes));
        self.peak_memory_mib = peaks.max().map(|bytes| divided(bytes, 1_024 * 1_024));
        let disturbed_cases = self.runs().filter(|run| run.conditions.disturbed).count();
        let floors = self.rounds.values().flatten().flat_map(|round| [&round.before, &round.after]);
        self.setting.disturbed_runs = disturbed_cases + floors.filter(|run| run.conditions.disturbed).count();
    }

    fn runs(&self) -> impl Iterator<Item = &CaseRun> {
        self.rounds.values().flatten().map(|round| &round.daybook).chain(self.fresh.values())
    }

    /// The tables, in Markdown.
    pub fn tables(&self) -> String {
        let mut text = String::new();
        self.write_tables(&mut text).map_or_else(|_| String::new(), |()| text)
    }

    fn write_tables(&self, out: &mut String) -> std::fmt::Result {
        self.write_setting(out)?;
        self.write_ratios(out)?;
        self.write_cases(out)?;
        if let Some(statements) = &self.statements {
            writeln!(out, "\n| case | statements an operation |\n| --- | --- |")?;
            for (case, counted) in statements {
                writeln!(out, "| {} | {:.3} |", name(*case), counted.per_operation)?;
            }
        }
        match &self.history {
            Some(history) => write_history(history, out),
            None => Ok(()),
        }
    }

    fn write_setting(&self, out: &mut String) -> std::fmt::Result {
        let Setting { postgres, processors, seconds, rounds, disturbed_runs, load_average_before } =
            &self.setting;
        writeln!(out, "{postgres}; {processors} processors; {rounds} rounds of {seconds} s.")?;
        if let Some(load) = load_average_before {
            writeln!(
                out,
                "Load average before: {load:.2}. Runs disturbed by other programs: {disturbed_runs}."
            )?;
        }
        if let Some(peak) = self.peak_memory_mib {
            writeln!(out, "Peak memory of the server: {peak:.0} MiB.")?;
        }
        Ok(())
    }

    fn write_ratios(&self, out: &mut String) -> std::fmt::Result {
        writeln!(out, "\n| case | ratio | rounds | never analysed | at least | goal |")?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- |")?;
        let ratios = [
            (Case::Spread, self.spread_ratio, "1.0", "1.5"),
            (Case::Hot, self.hot_ratio, "8", "12"),
            (Case::Batch, self.batch_ratio, "0.7", "1.2"),
            (Case::Pair, self.pair_ratio, "0.4", "0.8"),
            (Case::Lone, self.lone_latency_ratio, "at most 4", "3"),
        ];
        for (case, ratio, least, goal) in ratios {
            let Some(ratio) = ratio else { continue };
            let rounds = self.rounds.get(&case).into_iter().flatten();
            let rounds: Vec<String> = rounds.map(|round| format!("{:.2}", round.ratio)).collect();
            let fresh = self.fresh_ratios.get(&case).map_or("-".to_owned(), |ratio| format!("{ratio:.2}"));
            writeln!(
                out,
                "| {} | **{ratio:.2}** | {} | {fresh} | {least} | {goal} |",
                name(case),
                rounds.join(", ")
            )?;
        }
        Ok(())
    }

    fn write_cases(&self, out: &mut String) -> std::fmt::Result {
        writeln!(
            out,
            "\n| case | operations/s | floor/s | p50 ms | p99 ms | not done | entries a commit | WAL bytes: Daybook, floor | processors: Postgres, server, client, others |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")?;
        for (case, rounds) in &self.rounds {
            let of = |pick: fn(&Round) -> f64| median(rounds.iter().map(pick));
            writeln!(
                out,
                "| {} | {:.0} | {:.0} | {:.2} | {:.2} | {} | {:.1} | {:.0}, {:.0} | {:.2}, {:.2}, {:.2}, {:.2} |",
                name(*case),
                of(|round| round.daybook.operations_per_s),
                of(|round| mean(round.before.per_s, round.after.per_s)),
                of(|round| round.daybook.p50_ms),
                of(|round| round.daybook.p99_ms),
                rounds.iter().map(|round| round.daybook.refused).sum::<u64>(),
                of(|round| round.daybook.entries_per_commit),
                of(|round| round.daybook.wal_bytes_each),
                of(|round| mean(round.before.wal_bytes_each, round.after.wal_bytes_each)),
                of(|round| round.daybook.conditions.cores_postgres),
                of(|round| round.daybook.conditions.cores_server),
                of(|round| round.daybook.conditions.cores_client),
                of(|round| round.daybook.conditions.cores_others),
            )?;
        }
        Ok(())
    }
}

fn write_history(history: &History, out: &mut String) -> std::fmt::Result {
    writeln!(out, "\n| an account with {} entries | ms |\n| --- | --- |", history.entries)?;
    writeln!(out, "| history, page 1 | {:.2} |", history.first_page_ms)?;
    writeln!(out, "| history, page {} | {:.2} |", history.deep_page, history.deep_page_ms)?;
    writeln!(out, "| balance now | {:.2} |", history.balance_now_ms)?;
    writeln!(out, "| balance as of the middle | {:.2} |", history.balance_at_ms)?;
    writeln!(out, "\nFilled with {:.0} charges a second through `/v1/batch`.", history.filled_per_s)
}

fn name(case: Case) -> &'static str {
    match case {
        Case::Spread => "charges, spread",
        Case::Hot => "charges, one account",
        Case::Batch => "`/v1/batch` of 100, spread",
        Case::Pair => "hold then settle, spread",
        Case::Lone => "a lone charge, latency",
    }
}
