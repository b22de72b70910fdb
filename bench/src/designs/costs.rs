//! What each way of waiting costs: while nothing happens, and for one message; on 1, 3 and 10
//! nodes with 4 and 8 dispatchers.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::stage::{self, Producer, Reading, Stage};
use super::{Part, Shape, WAYS, Way};
use crate::plot::{Bar, Chart};
use crate::setup::Setup;
use crate::table::{Table, say};
use crate::wake::WakeArgs;

/// A minute after its start a node applies retention, which takes five statements, and from then on
/// once an hour. That is over when idle time begins.
const FIRST_RETENTION: Duration = Duration::from_secs(65);

/// What one stage cost.
struct Cost {
    shape: Shape,
    idle: Option<Idle>,
    /// Of one message, pushed elsewhere and here, on average.
    events: Option<[PerEvent; 2]>,
}

/// Per second.
#[derive(Clone, Copy)]
struct Idle {
    statements: f64,
    nodes: f64,
    backends: f64,
}

impl Idle {
    fn between(from: &Reading, to: &Reading) -> Self {
        let seconds = (to.at - from.at).as_secs_f64();
        Self {
            statements: to.statements.since(&from.statements).total as f64 / seconds,
            nodes: (to.nodes - from.nodes) / seconds,
            backends: (to.backends - from.backends) / seconds,
        }
    }
}

#[derive(Clone, Copy)]
struct PerEvent {
    claims: f64,
    again: f64,
    statements: f64,
}

/// How long, how often, on how many nodes.
struct Plan {
    /// Time for the nodes to come to rest after their start.
    settle: Duration,
    /// The same for nodes that wait for hints and are left idle.
    rest: Duration,
    shapes: Vec<Shape>,
    idle: bool,
    /// Of nodes that poll.
    polling: Duration,
    /// Of nodes that wait for hints: long enough for the sweeps that belong to it.
    waiting: Duration,
    events: usize,
}

impl Plan {
    fn of(args: &WakeArgs) -> Result<Self> {
        let (nodes, dispatchers): (&[usize], &[usize]) =
            if args.quick { (&[1, 3], &[4]) } else { (&[1, 3, 10], &[4, 8]) };
        let settle = Duration::from_millis(if args.quick { 200 } else { 1_500 });
        let idle = Part::Idle.is_in(&args.only);
        let shape =
            |nodes| dispatchers.iter().map(move |&dispatchers| Shape { nodes, dispatchers });
        Ok(Self {
            settle,
            rest: if idle && !args.quick { FIRST_RETENTION } else { settle },
            shapes: nodes.iter().flat_map(|&nodes| shape(nodes)).collect(),
            idle,
            polling: Duration::try_from_secs_f64(args.idle_seconds / 12.0)?,
            waiting: Duration::try_from_secs_f64(args.idle_seconds)?,
            events: if Part::Events.is_in(&args.only) { args.events.max(1) } else { 0 },
        })
    }
}

/// Measures all ways.
pub(super) async fn run(setup: &Setup, args: &WakeArgs) -> Result<()> {
    let plan = Plan::of(args)?;
    let template = stage::template(setup).await?.name;
    let mut all = Vec::new();
    for way in WAYS.into_iter().filter(|way| plan.idle || !way.polls()) {
        let mut costs = Vec::new();
        // Nodes that do nothing may do it side by side; those that poll would slow each other down.
        let at_once = if way.is_by_the_clock() { 1 } else { plan.shapes.len() };
        for shapes in plan.shapes.chunks(at_once) {
            let mut stages = Vec::new();
            for shape in shapes {
                stages.push(Stage::start(setup, &template, (way, *shape)).await?);
            }
            costs.extend(measure(setup, &plan, (way, stages)).await?);
        }
        eprintln!("measured: {}", way.name);
        all.push((way, costs));
    }
    setup.database.remove_another(&template).await?;
    if plan.idle {
        print_idle(&plan, &all);
    }
    if plan.events > 0 {
        print_events(&plan, &all);
    }
    args.plots.as_deref().map_or(Ok(()), |folder| write_charts(folder, &all))
}

async fn measure(
    setup: &Setup,
    plan: &Plan,
    (way, mut stages): (Way, Vec<Stage>),
) -> Result<Vec<Cost>> {
    let database = &setup.database;
    let (settle, window) = match way.is_by_the_clock() {
        true => (plan.settle, plan.polling),
        false => (plan.rest, plan.waiting),
    };
    tokio::time::sleep(settle).await;
    let mut idle = vec![None; stages.len()];
    if plan.idle {
        let mut before = Vec::new();
        for stage in &mut stages {
            if way.aggressive {
                // The minute of polling is what is to be seen, and a message starts it.
                stage.event(database, Producer::Elsewhere).await?;
            }
            before.push(stage.read(database).await?);
        }
        tokio::time::sleep(window).await;
        for (index, stage) in stages.iter().enumerate() {
            idle[index] = Some(Idle::between(&before[index], &stage.read(database).await?));
        }
    }
    let mut costs = Vec::new();
    for (stage, idle) in stages.iter_mut().zip(idle) {
        let events = match plan.events {
            // By the clock: their claims depend on the time that a message waits, on nothing else.
            _ if way.polls() => None,
            0 => None,
            events => Some([
                per_event(setup, stage, (Producer::Elsewhere, events)).await?,
                per_event(setup, stage, (Producer::Here, events)).await?,
            ]),
        };
        costs.push(Cost { shape: stage.shape, idle, events });
    }
    for stage in stages {
        stage.end(database).await?;
    }
    Ok(costs)
}

async fn per_event(
    setup: &Setup,
    stage: &mut Stage,
    (producer, events): (Producer, usize),
) -> Result<PerEvent> {
    // The first one makes the queue, or its first partition, known to everybody.
    stage.event(&setup.database, producer).await?;
    let (mut claims, mut again, mut statements) = (0, 0, 0);
    for _ in 0..events {
        let cost = stage.event(&setup.database, producer).await?;
        claims += cost.claims;
        again += cost.again;
        statements += cost.statements;
    }
    let each = |total: i64| total as f64 / events as f64;
    Ok(PerEvent { claims: each(claims), again: each(again), statements: each(statements) })
}

type All = [(Way, Vec<Cost>)];

fn columns(plan: &Plan, first: &[&str]) -> Table {
    let shapes: Vec<String> = plan.shapes.iter().map(|shape| shape.text()).collect();
    let columns = first.iter().copied().chain(shapes.iter().map(String::as_str));
    Table::new(&columns.collect::<Vec<_>>())
}

fn figure(figure: f64) -> String {
    match figure {
        0.0 => "0".to_owned(),
        figure if figure < 10.0 => format!("{figure:.2}"),
        figure => format!("{figure:.0}"),
    }
}

fn print_idle(plan: &Plan, all: &All) {
    let mut statements = columns(plan, &["way of waiting", "from the design", ""]);
    let mut nodes = columns(plan, &["way of waiting"]);
    let mut backends = columns(plan, &["way of waiting"]);
    for (way, costs) in all {
        let idle = || costs.iter().filter_map(|cost| Some((cost.shape, cost.idle?)));
        let row = |first: [&str; 3], cells: Vec<String>| {
            [first.map(str::to_owned).to_vec(), cells].concat()
        };
        let predicted = idle().map(|(shape, _)| figure(way.idle_predicted(shape))).collect();
        statements.row(&row([way.name, way.design, "predicted"], predicted));
        let measured = idle().map(|(_, idle)| figure(idle.statements)).collect();
        statements.row(&row(["", "", "measured"], measured));
        let percent = |figure: f64| format!("{:.1} %", figure * 100.0);
        let name = || std::iter::once(way.name.to_owned());
        let of_each = idle().map(|(shape, idle)| percent(idle.nodes / shape.nodes as f64));
        nodes.row(&name().chain(of_each).collect::<Vec<_>>());
        backends
            .row(&name().chain(idle().map(|(_, idle)| percent(idle.backends))).collect::<Vec<_>>());
    }
    statements.print("Idle: statements a second of all nodes, by nodes x dispatchers");
    say(&format!(
        "\nEach dispatcher is a parked pop on each of two queues. Nodes that poll were watched for \
         {:.0} s, those that wait for hints for {:.0} s, in which each makes a safety sweep a \
         minute. The retention that each applies a minute after its start, and then once an hour, \
         was over before. \"compete, aggressive\" polls for a minute after every wake; it was \
         watched in such a minute, for as long as those that poll. Queues whose times come \
         together share a statement in grouped polling.",
        plan.polling.as_secs_f64(),
        plan.waiting.as_secs_f64()
    ));
    nodes.print("Idle: processor time of one node, in percent of a core");
    backends.print("Idle: processor time of PostgreSQL for all nodes, in percent of a core");
    print_comparison(all);
}

/// Before and after, on one node with four dispatchers.
fn print_comparison(all: &All) {
    let idle = |costs: &[Cost]| costs.first().and_then(|cost| cost.idle);
    let Some(before) = all.first().and_then(|(_, costs)| idle(costs)) else { return };
    let mut table = Table::new(&[
        "way of waiting",
        "statements a second",
        "fewer statements",
        "processor, node and PostgreSQL",
        "less processor time",
    ]);
    let used = |idle: Idle| idle.nodes + idle.backends;
    for (way, costs) in all {
        let Some(idle) = idle(costs) else { continue };
        let less = |now: f64, then: f64| format!("{:.1} %", (1.0 - now / then) * 100.0);
        table.row(&[
            way.name.to_owned(),
            figure(idle.statements),
            less(idle.statements, before.statements),
            format!("{:.1} % of a core", used(idle) * 100.0),
            less(used(idle), used(before)),
        ]);
    }
    table.print("Idle: beside short polling every 50 ms, one node with four dispatchers");
    say(
        "\nPredicted: 99 percent fewer statements (Optimized Polling); 90 percent fewer statements \
         and 90 percent less processor time (Long Polling Behavior Plan).",
    );
}

fn print_events(plan: &Plan, all: &All) {
    let mut claims = columns(plan, &["way of waiting", "from the design", ""]);
    let mut statements = columns(plan, &["way of waiting"]);
    for (way, costs) in all.iter().filter(|(way, _)| !way.polls()) {
        let row = |first: [&str; 3], cells: Vec<String>| {
            [first.map(str::to_owned).to_vec(), cells].concat()
        };
        let predicted = |cost: &Cost| {
            way.claims_predicted(cost.shape).map_or("by the clock".to_owned(), figure)
        };
        let cells = costs.iter().map(predicted).collect();
        claims.row(&row([way.name, way.design, "predicted"], cells));
        let of = |producer: usize, what: fn(&PerEvent) -> f64| -> Vec<String> {
            let events = costs.iter().filter_map(|cost| cost.events);
            events.map(|events| figure(what(&events[producer]))).collect()
        };
        claims.row(&row(["", "", "pushed elsewhere"], of(0, |event| event.claims)));
        claims.row(&row(["", "", "pushed to the first node"], of(1, |event| event.claims)));
        if !way.aggressive {
            let again = of(0, |event| event.again);
            claims.row(&row(["", "", "pushed elsewhere: second looks in it"], again));
            let name = vec![way.name.to_owned()];
            statements.row(&[name, of(0, |event| event.statements)].concat());
        }
    }
    claims.print("Events: claims of all nodes for one message, by nodes x dispatchers");
    say(&format!(
        "\nMeans of {} messages to one queue, on which the dispatchers of each node wait, pushed \
         to a node on which nobody waits, and to the first node. A claim that meets a row that \
         another node holds looks a second time, because that claim may come to nothing. \
         \"compete, aggressive\" also polls by the clock meanwhile, until the message was \
         received. \
         Claims of ways that poll depend on how long a message waits, and on nothing else.",
        plan.events
    ));
    statements.print(
        "Events: statements for one message with push, ack and parking again, pushed elsewhere",
    );
}

/// Charts of the nodes with four dispatchers.
fn write_charts(folder: &Path, all: &All) -> Result<()> {
    let chart = |title: &str, unit, bar: &dyn Fn(&Way, &Cost) -> Option<Bar>| {
        let few = |cost: &&Cost| cost.shape.dispatchers == 4;
        let rows = all.iter().filter_map(|(way, costs)| {
            let bars: Option<Vec<Bar>> =
                costs.iter().filter(few).map(|cost| bar(way, cost)).collect();
            Some((way.name.to_owned(), bars?))
        });
        let rows: Vec<_> = rows.collect();
        let nodes = all.first().map(|(_, costs)| costs.iter().filter(few)).into_iter().flatten();
        let series = nodes.map(|cost| match cost.shape.nodes {
            1 => "1 node".to_owned(),
            nodes => format!("{nodes} nodes"),
        });
        Chart { title: title.to_owned(), unit, floor: 0.01, series: series.collect(), rows }
    };
    let idle = chart(
        "Idle: statements a second of all nodes, four dispatchers on each of two queues",
        "statements a second",
        &|way, cost| {
            let predicted = Some(way.idle_predicted(cost.shape));
            Some(Bar { measured: cost.idle?.statements, up_to: None, predicted })
        },
    );
    let events = chart(
        "Claims of all nodes for one message, four dispatchers on each of two queues",
        "claims",
        &|way, cost| {
            let measured = cost.events?[0].claims;
            let predicted = Some(way.claims_predicted(cost.shape)?);
            Some(Bar { measured, up_to: None, predicted })
        },
    );
    for (mut chart, name, floor) in
        [(idle, "wake-idle.svg", 0.01), (events, "wake-events.svg", 0.1)]
    {
        chart.floor = floor;
        if !chart.rows.is_empty() {
            chart.write(folder, name)?;
        }
    }
    Ok(())
}
