//! A server process, which can be killed, asked to end, and started again at the same address.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ExitStatus};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::Client;
use crate::site::Site;

/// A dev build on a busy machine.
const START_PATIENCE: Duration = Duration::from_secs(90);
/// The server gives running requests 10 seconds.
const END_PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);

pub struct Server<'a> {
    site: &'a Site,
    address: SocketAddr,
    pub url: String,
    log: PathBuf,
    process: Mutex<Option<Child>>,
}

impl<'a> Server<'a> {
    pub fn start(site: &'a Site, name: &str) -> Server<'a> {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr());
        let address = free.expect("a port is free");
        let log = site.folder.join(format!("{name}.log"));
        let server =
            Server { site, address, url: format!("http://{address}"), log, process: Mutex::new(None) };
        server.start_again();
        server
    }

    /// Starts the process and waits until it answers. One that ends at once, as while Postgres is still coming up, is
    /// started again.
    pub fn start_again(&self) {
        let begun = Instant::now();
        loop {
            let mut child = self.spawn();
            if self.answers(&mut child, begun) {
                *self.process() = Some(child);
                return;
            }
            sleep(POLL * 10);
        }
    }

    fn spawn(&self) -> Child {
        let log = File::options().create(true).append(true).open(&self.log).expect("the log can be written");
        let errors = log.try_clone().expect("the log can be shared");
        let address = self.address.to_string();
        let mut command = self.site.daybook(&["serve", "--addr", &address]);
        command.stdout(log).stderr(errors).spawn().expect("the server can be started")
    }

    fn answers(&self, child: &mut Child, begun: Instant) -> bool {
        let client = Client::new(&self.site.bearer);
        while let Ok(None) = child.try_wait() {
            if client.get(&format!("{}/ready", self.url)).is_ok_and(|(status, _)| status == 200) {
                return true;
            }
            assert!(
                begun.elapsed() < START_PATIENCE,
                "the server does not start; see {}",
                self.log.display()
            );
            sleep(POLL);
        }
        assert!(begun.elapsed() < START_PATIENCE, "the server ends at once; see {}", self.log.display());
        false
    }

    fn process(&self) -> MutexGuard<'_, Option<Child>> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As a crash would end it.
    pub fn kill(&self) {
        if let Some(mut child) = self.process().take() {
            child.kill().expect("a process that we started can be killed");
            child.wait().expect("a killed process ends");
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn terminate(&self) -> ExitStatus {
        let mut child = self.process().take().expect("the server runs");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)
            .expect("the server can be signalled");
        let begun = Instant::now();
        loop {
            if let Some(status) = child.try_wait().expect("the server can be waited for") {
                return status;
            }
            if begun.elapsed() > END_PATIENCE {
                drop(child.kill());
                panic!("the server did not end within {} s of the signal", END_PATIENCE.as_secs());
            }
            sleep(POLL);
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.process().take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}
