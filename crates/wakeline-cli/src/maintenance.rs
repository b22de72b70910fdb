//! `wakeline maintenance on|off|status`. It opens the store directly and can be used while servers
//! run on it.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::json;
use wakeline_store::{Backend, Maintenance, PushGate, SetMaintenance};

use crate::access::{StoreCommandArgs, cli_action, on_store, print};

/// Subcommands of `wakeline maintenance`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum MaintenanceCommand {
    /// Start maintenance: pushes are stored, and delivered when maintenance ends
    On(OnArgs),
    /// End maintenance of pushes and pops; stored messages are delivered before new ones
    Off(OffArgs),
    /// Show how pushes and pops are treated, and how many messages wait for the end of maintenance
    Status(StatusArgs),
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OnArgs {
    /// Pause pops only; pushes are treated as before
    #[arg(long, conflicts_with = "refuse")]
    pops: bool,
    /// Refuse pushes instead of storing them
    #[arg(long)]
    refuse: bool,
    #[command(flatten)]
    common: StoreCommandArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct OffArgs {
    /// Resume pops only; pushes are treated as before
    #[arg(long)]
    pops: bool,
    #[command(flatten)]
    common: StoreCommandArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    common: StoreCommandArgs,
}

/// Runs `wakeline maintenance`.
pub(crate) fn run(command: MaintenanceCommand) -> anyhow::Result<ExitCode> {
    match command {
        MaintenanceCommand::On(OnArgs { pops, refuse, common }) => {
            let gate = if refuse { PushGate::Refuse } else { PushGate::Hold };
            change(
                &common,
                if pops { MaintenanceChange::Pops(true) } else { MaintenanceChange::Pushes(gate) },
            )
        }
        MaintenanceCommand::Off(OffArgs { pops, common }) => change(
            &common,
            if pops { MaintenanceChange::Pops(false) } else { MaintenanceChange::Nothing },
        ),
        MaintenanceCommand::Status(StatusArgs { common }) => {
            on_store(&common, async |store| print_status(&common, store.as_ref()).await)
        }
    }
}

/// The change that a command makes.
#[derive(Debug, Clone, Copy)]
enum MaintenanceChange {
    Pushes(PushGate),
    Pops(bool),
    /// Resumes pushes and pops.
    Nothing,
}

fn change(common: &StoreCommandArgs, requested: MaintenanceChange) -> anyhow::Result<ExitCode> {
    let none = SetMaintenance::default();
    let (target, detail, set) = match requested {
        MaintenanceChange::Pushes(gate) => {
            ("pushes", gate_name(gate), SetMaintenance { pushes: Some(gate), ..none })
        }
        MaintenanceChange::Pops(paused) => {
            let detail = if paused { "pause" } else { "off" };
            ("pops", detail, SetMaintenance { pops_paused: Some(paused), ..none })
        }
        MaintenanceChange::Nothing => {
            let set = SetMaintenance { pushes: Some(PushGate::Open), pops_paused: Some(false) };
            ("pushes and pops", "off", set)
        }
    };
    on_store(common, async |store| {
        cli_action("maintenance.set", target, detail).during(store.set_maintenance(set)).await?;
        // A server releases held messages of the queues that it serves. This command releases the
        // others, too.
        while store.release_held().await? > 0 {}
        print_status(common, store.as_ref()).await
    })
}

fn gate_name(gate: PushGate) -> &'static str {
    match gate {
        PushGate::Open => "off",
        PushGate::Hold => "hold",
        PushGate::Refuse => "refuse",
    }
}

async fn print_status(common: &StoreCommandArgs, store: &dyn Backend) -> anyhow::Result<()> {
    let Maintenance { pushes, pops_paused } = store.maintenance().await?;
    let held = store.held_messages().await?;
    let value = json!({
        "pushes": match pushes { PushGate::Open => "open", other => gate_name(other) },
        "popsPaused": pops_paused,
        "heldMessages": held,
    });
    let pushes = match pushes {
        PushGate::Open => "accepted",
        PushGate::Hold => "held",
        PushGate::Refuse => "refused",
    };
    let pops = if pops_paused { "paused" } else { "accepted" };
    let lines = [
        format!("pushes  {pushes}"),
        format!("pops    {pops}"),
        format!("held    {held} messages"),
    ];
    print(common, [value], lines);
    Ok(())
}
