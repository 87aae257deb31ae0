//! Who used the machine while something was measured, by the system's own counts. Where there is no `/proc`, nothing is
//! known and nothing is said.

use std::fs;
use std::time::Instant;

use crate::bench::figures::{less, ratio};

/// Ticks of a processor in a second, as Linux reports them on every machine.
const TICKS_PER_S: f64 = 100.0;
/// Others may use so many processors before a run counts as disturbed.
const OTHERS_MAX: f64 = 0.15;

/// Processors in use during a run, and by whom.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct Conditions {
    pub cores_postgres: f64,
    pub cores_server: f64,
    /// This program and the tools it runs.
    pub cores_client: f64,
    pub cores_others: f64,
    /// Others used the machine so much that the figure may suffer.
    pub disturbed: bool,
}

/// Counts from its start.
#[derive(Debug)]
pub struct Watch {
    postmaster: Option<u32>,
    server: Option<u32>,
    began: Instant,
    before: Ticks,
}

#[derive(Debug, Clone, Copy, Default)]
struct Ticks {
    all: u64,
    postgres: u64,
    server: u64,
    client: u64,
}

impl Watch {
    pub fn start(postmaster: Option<u32>, server: Option<u32>) -> Self {
        Self { postmaster, server, began: Instant::now(), before: ticks(postmaster, server) }
    }

    /// Must be asked while the server still runs.
    pub fn end(&self) -> Conditions {
        let (now, before) = (ticks(self.postmaster, self.server), self.before);
        let seconds = self.began.elapsed().as_secs_f64();
        let cores = |now: u64, before: u64| {
            let ticks = u32::try_from(now.saturating_sub(before)).unwrap_or(u32::MAX);
            ratio(ratio(f64::from(ticks), TICKS_PER_S), seconds)
        };
        let cores_postgres = cores(now.postgres, before.postgres);
        let cores_server = cores(now.server, before.server);
        let cores_client = cores(now.client, before.client);
        let cores_others = less(cores(now.all, before.all), &[cores_postgres, cores_server, cores_client]);
        let disturbed = cores_others > OTHERS_MAX;
        Conditions { cores_postgres, cores_server, cores_client, cores_others, disturbed }
    }
}

/// The most memory a process has had, in bytes.
pub fn peak_memory_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1_024)
}

/// The mean number of runnable tasks over the last minute.
pub fn load_average() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

fn ticks(postmaster: Option<u32>, server: Option<u32>) -> Ticks {
    Ticks {
        all: all().unwrap_or(0),
        postgres: postmaster.map_or(0, |pid| with_children(pid).unwrap_or(0)),
        server: server.and_then(stat).map_or(0, |stat| stat.own),
        client: stat(std::process::id()).map_or(0, |stat| stat.own + stat.reaped),
    }
}

/// The whole machine's ticks, without those in which it was idle or waited.
fn all() -> Option<u64> {
    let text = fs::read_to_string("/proc/stat").ok()?;
    let fields = text.lines().next()?.split_ascii_whitespace().skip(1).take(8);
    let fields: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let idle = fields.get(3)? + fields.get(4)?;
    Some(fields.iter().sum::<u64>() - idle)
}

struct Stat {
    parent: u32,
    own: u64,
    /// Of children that have ended.
    reaped: u64,
}

fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may hold blanks and brackets of its own.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let number = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok());
    Some(Stat {
        parent: u32::try_from(number(1)?).ok()?,
        own: number(11)? + number(12)?,
        reaped: number(13)? + number(14)?,
    })
}

fn with_children(pid: u32) -> Option<u64> {
    let root = stat(pid)?;
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children = pids.filter_map(stat).filter(|stat| stat.parent == pid);
    Some(root.own + root.reaped + children.map(|child| child.own).sum::<u64>())
}
