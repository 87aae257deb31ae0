//! The system's package manager: which one there is, what it calls things, and whether we may use it.

use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::prepare::on_path;
use crate::process;

/// What may have to be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Package {
    Postgres,
    Chromium,
    Node,
    PythonVenv,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
    Brew,
}

/// Whose rights an installation uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// Ours are enough.
    Own,
    /// `sudo` asks for no password.
    Sudo,
    /// The person must do it.
    NotOurs,
}

impl Package {
    fn described(self) -> &'static str {
        match self {
            Self::Postgres => "a Postgres server",
            Self::Chromium => "Chromium",
            Self::Node => "Node with npm",
            Self::PythonVenv => "Python 3 with venv",
        }
    }

    fn names(self, manager: Manager) -> &'static [&'static str] {
        match (self, manager) {
            (Self::Postgres, Manager::Apt) => &["postgresql"],
            (Self::Postgres, Manager::Dnf) => &["postgresql-server", "postgresql-contrib"],
            (Self::Postgres, Manager::Brew) => &["postgresql@17"],
            (Self::Chromium, _) => &["chromium"],
            (Self::Node, Manager::Apt) => &["nodejs", "npm"],
            (Self::Node, Manager::Dnf) => &["nodejs", "nodejs-npm"],
            (Self::Node, Manager::Brew) => &["node"],
            (Self::PythonVenv, Manager::Apt) => &["python3", "python3-venv"],
            (Self::PythonVenv, Manager::Dnf) => &["python3"],
            (Self::PythonVenv, Manager::Brew) => &["python"],
        }
    }
}

impl Manager {
    fn find() -> Option<Self> {
        let known = [("apt-get", Self::Apt), ("dnf", Self::Dnf), ("brew", Self::Brew)];
        known.into_iter().find(|(program, _)| on_path(program).is_some()).map(|(_, manager)| manager)
    }

    /// The commands that install these packages, one after the other.
    fn commands(self, names: &[&str]) -> Vec<Vec<String>> {
        let steps: &[&[&str]] = match self {
            Self::Apt => &[
                &["apt-get", "update", "-q"],
                &["apt-get", "install", "-q", "-y", "--no-install-recommends"],
            ],
            Self::Dnf => &[&["dnf", "install", "-y"]],
            Self::Brew => &[&["brew", "install"]],
        };
        let mut commands: Vec<Vec<String>> =
            steps.iter().map(|words| words.iter().map(|word| (*word).to_owned()).collect()).collect();
        if let Some(last) = commands.last_mut() {
            last.extend(names.iter().map(|name| (*name).to_owned()));
        }
        commands
    }

    fn rights(self) -> Rights {
        if self == Self::Brew || rustix::process::geteuid().is_root() {
            return Rights::Own;
        }
        let asked =
            Command::new("sudo").args(["-n", "true"]).stdin(Stdio::null()).stderr(Stdio::null()).status();
        if asked.is_ok_and(|status| status.success()) { Rights::Sudo } else { Rights::NotOurs }
    }
}

/// Installs a package, or fails with the command that the person should run.
pub fn install(package: Package) -> Result<(), Failure> {
    let what = package.described();
    let Some(manager) = Manager::find() else {
        return Err(Failure::Missing {
            what,
            command: format!(
                "your system's package manager (it is neither apt, dnf nor brew; look for: {what})"
            ),
        });
    };
    let commands = manager.commands(package.names(manager));
    let rights = manager.rights();
    if rights == Rights::NotOurs {
        return Err(Failure::Missing { what, command: spelled(&commands) });
    }
    println!("Installing {what} …");
    let missing = || Failure::Missing { what, command: spelled(&commands) };
    for words in &commands {
        let installed = process::run(&mut as_command(words, rights));
        process::not_interrupted()?;
        installed.map_err(|_| missing())?;
    }
    Ok(())
}

fn as_command(words: &[String], rights: Rights) -> Command {
    let sudo = ["sudo", "-n", "DEBIAN_FRONTEND=noninteractive"].map(str::to_owned);
    let all: Vec<String> = if rights == Rights::Sudo {
        sudo.into_iter().chain(words.iter().cloned()).collect()
    } else {
        words.to_vec()
    };
    let (program, rest) =
        all.split_first().map_or(("true", &[][..]), |(program, rest)| (program.as_str(), rest));
    let mut command = process::command(program);
    command.args(rest).stdin(Stdio::null()).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// The commands as one line to copy.
fn spelled(commands: &[Vec<String>]) -> String {
    let prefix = if Manager::find() == Some(Manager::Brew) { "" } else { "sudo " };
    commands.iter().map(|words| format!("{prefix}{}", words.join(" "))).collect::<Vec<_>>().join(" && ")
}

#[cfg(test)]
mod tests {
    use super::{Manager, Package};

    #[test]
    fn apt_refreshes_its_lists_before_it_installs() {
        let commands = Manager::Apt.commands(Package::Postgres.names(Manager::Apt));
        let lines: Vec<String> = commands.iter().map(|words| words.join(" ")).collect();
        assert_eq!(lines, ["apt-get update -q", "apt-get install -q -y --no-install-recommends postgresql"]);
    }
}
