//! Running other programs so that Ctrl-C ends all of them and still lets us clean up.
//!
//! At a terminal the whole group gets the signal: the child stops by itself, we wait for it. A signal sent to us alone
//! is passed on.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::failure::Failure;

const POLL: Duration = Duration::from_millis(50);
/// A child at the same terminal has its own copy of the signal; only later do we send one.
const OWN_SIGNAL: Duration = Duration::from_millis(500);
/// How long a child gets to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Makes Ctrl-C and a request to terminate raise a flag instead of ending the process at once.
pub fn interruptions() -> Arc<AtomicBool> {
    static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    let flag = FLAG.get_or_init(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
        {
            // Without the flag the default holds: the process ends at once, and leftovers are swept by the next run.
            let _registered = signal_hook::flag::register(signal, Arc::clone(&flag));
        }
        flag
    });
    Arc::clone(flag)
}

/// Fails when somebody has asked to stop.
pub fn not_interrupted() -> Result<(), Failure> {
    if interruptions().load(Ordering::Acquire) { Err(Failure::Interrupted) } else { Ok(()) }
}

/// A command without the traces of the `cargo run` that started us.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") || text == "CARGO_BIN_NAME" {
            command.env_remove(&name);
        }
    }
    command
}

/// Runs a command to its end, its output on ours.
pub fn run(command: &mut Command) -> Result<(), Failure> {
    let status = wait(&mut spawn(command)?)?;
    ended(command, status)
}

/// Runs a command and answers what it wrote on its standard output; its errors stay visible.
pub fn output_of(command: &mut Command) -> Result<String, Failure> {
    command.stdout(Stdio::piped());
    let mut child = spawn(command)?;
    let reader = child.stdout.take().map(|pipe| {
        thread::spawn(move || {
            let lines: Vec<String> = BufReader::new(pipe).lines().map_while(Result::ok).collect();
            lines.join("\n")
        })
    });
    let status = wait(&mut child)?;
    let text = reader.and_then(|reader| reader.join().ok()).unwrap_or_default();
    ended(command, status).map(|()| text)
}

/// Whether a program answers at all, such as `npm --version`.
pub fn answers(program: &str, argument: &str) -> bool {
    let quiet = Command::new(program)
        .arg(argument)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    quiet.is_ok_and(|status| status.success())
}

/// The command as a person would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

fn spawn(command: &mut Command) -> Result<Child, Failure> {
    interruptions();
    command.spawn().map_err(|source| Failure::Spawn { program: shown(command), source })
}

fn ended(command: &Command, status: ExitStatus) -> Result<(), Failure> {
    not_interrupted()?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::Program { program: shown(command), status: status.to_string() })
}

/// Waits for a child, and sees to its end after an interruption.
fn wait(child: &mut Child) -> Result<ExitStatus, Failure> {
    let mut asked_at: Option<Instant> = None;
    loop {
        if let Some(status) = poll(child)? {
            return Ok(status);
        }
        if interruptions().load(Ordering::Acquire) {
            let asked_at = *asked_at.get_or_insert_with(Instant::now);
            if asked_at.elapsed() > OWN_SIGNAL {
                return end(child);
            }
        }
        thread::sleep(POLL);
    }
}

fn poll(child: &mut Child) -> Result<Option<ExitStatus>, Failure> {
    match child.try_wait() {
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        result => {
            result.map_err(|source| Failure::Spawn { program: format!("process {}", child.id()), source })
        }
    }
}

/// Asks a child to end, waits, and kills it when it does not.
fn end(child: &mut Child) -> Result<ExitStatus, Failure> {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may have ended by itself in this moment; the wait below tells.
        let _sent = rustix::process::kill_process(pid, Signal::TERM);
    }
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = poll(child)? {
            return Ok(status);
        }
        thread::sleep(POLL);
    }
    let failed = |source| Failure::Spawn { program: "kill".to_owned(), source };
    child.kill().map_err(failed)?;
    child.wait().map_err(failed)
}

/// A program that runs beside us until this is dropped.
#[derive(Debug)]
pub struct Beside {
    child: Child,
    name: String,
}

impl Beside {
    /// Starts it.
    pub fn start(command: &mut Command) -> Result<Self, Failure> {
        Ok(Self { child: spawn(command)?, name: shown(command) })
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits until an HTTP server on this machine answers a request, whatever the answer is.
    pub fn wait_answering(&mut self, port: u16, patience: Duration) -> Result<(), Failure> {
        let deadline = Instant::now() + patience;
        while !answers_http(port) {
            not_interrupted()?;
            if let Some(status) = poll(&mut self.child)? {
                return Err(Failure::Program { program: self.name.clone(), status: status.to_string() });
            }
            if Instant::now() > deadline {
                return Err(Failure::Check(format!("{} does not answer on port {port}", self.name)));
            }
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// One bare request. A server may listen some time before it answers.
fn answers_http(port: u16) -> bool {
    let request = format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n");
    let asked = TcpStream::connect(("127.0.0.1", port)).and_then(|mut stream| {
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(request.as_bytes())?;
        let mut start = [0; 5];
        stream.read_exact(&mut start)?;
        Ok(start == *b"HTTP/")
    });
    asked.unwrap_or(false)
}

impl Drop for Beside {
    fn drop(&mut self) {
        // There is nobody left to tell when it cannot be ended.
        let _ended = end(&mut self.child);
    }
}

/// A port of this machine that nobody uses now.
pub fn free_port() -> Result<u16, Failure> {
    let failed = |source| Failure::Spawn { program: "a listener".to_owned(), source };
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(failed)?;
    Ok(listener.local_addr().map_err(failed)?.port())
}
