//! `wakeline maintenance on|off|status`: on the store itself, also while servers run on it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use wakeline_store::{Maintenance, PushGate, SetMaintenance, WholeStore};

use crate::access::{Common, deed, on_store, print};

/// What to do.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Hold pushes back from now on: they are stored, and delivered after the end
    On(OnArgs),
    /// End it for pushes and pops: what was held back is delivered before what is pushed then
    Off(OffArgs),
    /// Say what is suspended, and how much is held back
    Status(StatusArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OnArgs {
    /// Pause pops, and leave pushes as they are
    #[arg(long, conflicts_with = "refuse")]
    pops: bool,
    /// Refuse pushes instead of holding them back
    #[arg(long)]
    refuse: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OffArgs {
    /// Let pops go on, and leave pushes as they are
    #[arg(long)]
    pops: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    common: Common,
}

/// Runs the command.
pub(crate) fn run(command: MaintenanceCommand) -> anyhow::Result<ExitCode> {
    match command {
        MaintenanceCommand::On(OnArgs { pops, refuse, common }) => {
            let gate = if refuse { PushGate::Refuse } else { PushGate::Hold };
            change(&common, if pops { Wish::Pops(true) } else { Wish::Pushes(gate) })
        }
        MaintenanceCommand::Off(OffArgs { pops, common }) => {
            change(&common, if pops { Wish::Pops(false) } else { Wish::Nothing })
        }
        MaintenanceCommand::Status(StatusArgs { common }) => {
            on_store(&common, async |store| tell(&common, store.as_ref()).await)
        }
    }
}

/// What is to be changed.
#[derive(Debug, Clone, Copy)]
enum Wish {
    Pushes(PushGate),
    Pops(bool),
    /// Everything goes on.
    Nothing,
}

fn change(common: &Common, wish: Wish) -> anyhow::Result<ExitCode> {
    let none = SetMaintenance::default();
    let (target, detail, set) = match wish {
        Wish::Pushes(gate) => ("pushes", word(gate), SetMaintenance { pushes: Some(gate), ..none }),
        Wish::Pops(paused) => {
            let detail = if paused { "pause" } else { "off" };
            ("pops", detail, SetMaintenance { pops_paused: Some(paused), ..none })
        }
        Wish::Nothing => {
            let set = SetMaintenance { pushes: Some(PushGate::Open), pops_paused: Some(false) };
            ("pushes and pops", "off", set)
        }
    };
    on_store(common, async |store| {
        deed("maintenance.set", target, detail).during(store.set_maintenance(set)).await?;
        // Servers do the same for what they come across; this is for what nobody asks for.
        while store.release_held().await? > 0 {}
        tell(common, store.as_ref()).await
    })
}

fn word(gate: PushGate) -> &'static str {
    match gate {
        PushGate::Open => "off",
        PushGate::Hold => "hold",
        PushGate::Refuse => "refuse",
    }
}

async fn tell(common: &Common, store: &dyn WholeStore) -> anyhow::Result<()> {
    let Maintenance { pushes, pops_paused } = store.maintenance().await?;
    let held = store.held_messages().await?;
    let value = json!({
        "pushes": match pushes { PushGate::Open => "open", other => word(other) },
        "popsPaused": pops_paused,
        "heldMessages": held,
    });
    let pushes = match pushes {
        PushGate::Open => "go through",
        PushGate::Hold => "are held back",
        PushGate::Refuse => "are refused",
    };
    let pops = if pops_paused { "pause" } else { "go on" };
    let lines = [
        format!("pushes  {pushes}"),
        format!("pops    {pops}"),
        format!("held    {held} messages"),
    ];
    print(common, [value], lines);
    Ok(())
}
