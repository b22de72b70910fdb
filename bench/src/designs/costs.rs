//! The costs of each way of waiting, while there are no messages and for one message, on 1, 3 and
//! 10 nodes with 4 and 8 dispatchers.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use super::cluster::{self, Cluster, ClusterProducer, ClusterReading};
use super::{ClusterShape, Part, WAYS, Way};
use crate::plot::{Bar, Chart};
use crate::setup::Setup;
use crate::table::{Table, print_line};
use crate::wake::WakeBenchArgs;

/// How long to wait until a node has applied retention for the first time. It does so a minute
/// after its start, with five statements, and once an hour from then on.
const FIRST_RETENTION: Duration = Duration::from_secs(65);

/// The costs of one cluster.
struct WakeCost {
    shape: ClusterShape,
    idle: Option<IdleCost>,
    /// The average costs of one message, pushed to another node and to the first node.
    events: Option<[PerEvent; 2]>,
}

/// The costs of an idle cluster per second.
#[derive(Clone, Copy)]
struct IdleCost {
    statements: f64,
    nodes: f64,
    backends: f64,
}

impl IdleCost {
    fn between(from: &ClusterReading, to: &ClusterReading) -> Self {
        let seconds = (to.at - from.at).as_secs_f64();
        Self {
            statements: to.statements.since(&from.statements).total as f64 / seconds,
            nodes: (to.nodes - from.nodes) / seconds,
            backends: (to.backends - from.backends) / seconds,
        }
    }
}

/// The average costs of one message.
#[derive(Clone, Copy)]
struct PerEvent {
    claims: f64,
    again: f64,
    statements: f64,
}

/// What is measured, and for how long.
struct CostPlan {
    /// How long to wait after the start of the nodes.
    settle: Duration,
    /// The same for nodes that wait for hints, if their idle costs are measured.
    rest: Duration,
    shapes: Vec<ClusterShape>,
    idle: bool,
    /// Idle time of nodes that poll.
    polling: Duration,
    /// Idle time of nodes that wait for hints. It is long enough to include their sweeps.
    waiting: Duration,
    events: usize,
}

impl CostPlan {
    fn of(args: &WakeBenchArgs) -> Result<Self> {
        let (nodes, dispatchers): (&[usize], &[usize]) =
            if args.quick { (&[1, 3], &[4]) } else { (&[1, 3, 10], &[4, 8]) };
        let settle = Duration::from_millis(if args.quick { 200 } else { 1_500 });
        let idle = Part::Idle.is_in(&args.only);
        let shape =
            |nodes| dispatchers.iter().map(move |&dispatchers| ClusterShape { nodes, dispatchers });
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
pub(super) async fn run(setup: &Setup, args: &WakeBenchArgs) -> Result<()> {
    let plan = CostPlan::of(args)?;
    let template = cluster::template(setup).await?.name;
    let mut all = Vec::new();
    for way in WAYS.into_iter().filter(|way| plan.idle || !way.polls()) {
        let mut costs = Vec::new();
        // Idle nodes can be measured at the same time. Nodes that poll would slow each other
        // down.
        let at_once = if way.claims_regularly() { 1 } else { plan.shapes.len() };
        for shapes in plan.shapes.chunks(at_once) {
            let mut clusters = Vec::new();
            for shape in shapes {
                clusters.push(Cluster::start(setup, &template, way, *shape).await?);
            }
            costs.extend(measure(setup, &plan, way, clusters).await?);
        }
        eprintln!("measured: {}", way.name);
        all.push((way, costs));
    }
    setup.database.remove_scratch(&template).await?;
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
    plan: &CostPlan,
    way: Way,
    mut clusters: Vec<Cluster>,
) -> Result<Vec<WakeCost>> {
    let database = &setup.database;
    let (settle, window) = if way.claims_regularly() {
        (plan.settle, plan.polling)
    } else {
        (plan.rest, plan.waiting)
    };
    tokio::time::sleep(settle).await;
    let mut idle = vec![None; clusters.len()];
    if plan.idle {
        let mut before = Vec::new();
        for cluster in &mut clusters {
            if way.aggressive {
                // The minute of polling is to be measured, and a message starts it.
                cluster.event(database, ClusterProducer::Elsewhere).await?;
            }
            before.push(cluster.read(database).await?);
        }
        tokio::time::sleep(window).await;
        for (index, cluster) in clusters.iter().enumerate() {
            idle[index] = Some(IdleCost::between(&before[index], &cluster.read(database).await?));
        }
    }
    let mut costs = Vec::new();
    for (cluster, idle) in clusters.iter_mut().zip(idle) {
        let events = match plan.events {
            // The claims of ways that poll depend only on the time that a message waits.
            _ if way.polls() => None,
            0 => None,
            events => Some([
                per_event(setup, cluster, ClusterProducer::Elsewhere, events).await?,
                per_event(setup, cluster, ClusterProducer::Here, events).await?,
            ]),
        };
        costs.push(WakeCost { shape: cluster.shape, idle, events });
    }
    for cluster in clusters {
        cluster.end(database).await?;
    }
    Ok(costs)
}

async fn per_event(
    setup: &Setup,
    cluster: &mut Cluster,
    producer: ClusterProducer,
    events: usize,
) -> Result<PerEvent> {
    // The first message makes the queue, or its first partition, known to all nodes.
    cluster.event(&setup.database, producer).await?;
    let (mut claims, mut again, mut statements) = (0, 0, 0);
    for _ in 0..events {
        let cost = cluster.event(&setup.database, producer).await?;
        claims += cost.claims;
        again += cost.again;
        statements += cost.statements;
    }
    let each = |total: i64| total as f64 / events as f64;
    Ok(PerEvent { claims: each(claims), again: each(again), statements: each(statements) })
}

/// The costs of all ways of waiting.
type All = [(Way, Vec<WakeCost>)];

fn columns(plan: &CostPlan, first: &[&str]) -> Table {
    let shapes: Vec<String> = plan.shapes.iter().map(|shape| shape.text()).collect();
    let columns = first.iter().copied().chain(shapes.iter().map(String::as_str));
    Table::new(&columns.collect::<Vec<_>>())
}

fn format_number(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        number if number < 10.0 => format!("{number:.2}"),
        number => format!("{number:.0}"),
    }
}

fn print_idle(plan: &CostPlan, all: &All) {
    let mut statements = columns(plan, &["way of waiting", "from the design", ""]);
    let mut nodes = columns(plan, &["way of waiting"]);
    let mut backends = columns(plan, &["way of waiting"]);
    for (way, costs) in all {
        let idle = || costs.iter().filter_map(|cost| Some((cost.shape, cost.idle?)));
        let row = |first: [&str; 3], cells: Vec<String>| {
            [first.map(str::to_owned).to_vec(), cells].concat()
        };
        let predicted = idle().map(|(shape, _)| format_number(way.idle_predicted(shape))).collect();
        statements.row(&row([way.name, way.design, "predicted"], predicted));
        let measured = idle().map(|(_, idle)| format_number(idle.statements)).collect();
        statements.row(&row(["", "", "measured"], measured));
        let percent = |number: f64| format!("{:.1} %", number * 100.0);
        let name = || std::iter::once(way.name.to_owned());
        let of_each = idle().map(|(shape, idle)| percent(idle.nodes / shape.nodes as f64));
        nodes.row(&name().chain(of_each).collect::<Vec<_>>());
        backends
            .row(&name().chain(idle().map(|(_, idle)| percent(idle.backends))).collect::<Vec<_>>());
    }
    statements.print("Idle: statements per second of all nodes, by nodes x dispatchers");
    print_line(&format!(
        "\nEach dispatcher is a parked pop on each of two queues. Nodes that poll were measured \
         for {:.0} s, nodes that wait for hints for {:.0} s, in which each makes a safety sweep \
         per minute. Each node applies retention a minute after its start and then once an hour; \
         the measurement began after the first time. \"compete, aggressive\" polls for a minute \
         after every wake; it was measured within such a minute, for as long as nodes that poll. \
         In grouped polling, queues that are due at the same time share a statement.",
        plan.polling.as_secs_f64(),
        plan.waiting.as_secs_f64()
    ));
    nodes.print("Idle: processor time of one node, in percent of a core");
    backends.print("Idle: processor time of PostgreSQL for all nodes, in percent of a core");
    print_comparison(all);
}

/// Compares all ways with short polling, on one node with four dispatchers.
fn print_comparison(all: &All) {
    let idle = |costs: &[WakeCost]| costs.first().and_then(|cost| cost.idle);
    let Some(before) = all.first().and_then(|(_, costs)| idle(costs)) else { return };
    let mut table = Table::new(&[
        "way of waiting",
        "statements per second",
        "fewer statements",
        "processor, node and PostgreSQL",
        "less processor time",
    ]);
    let used = |idle: IdleCost| idle.nodes + idle.backends;
    for (way, costs) in all {
        let Some(idle) = idle(costs) else { continue };
        let less = |now: f64, then: f64| format!("{:.1} %", (1.0 - now / then) * 100.0);
        table.row(&[
            way.name.to_owned(),
            format_number(idle.statements),
            less(idle.statements, before.statements),
            format!("{:.1} % of a core", used(idle) * 100.0),
            less(used(idle), used(before)),
        ]);
    }
    table.print("Idle: compared with short polling every 50 ms, one node with four dispatchers");
    print_line(
        "\nPredicted: 99 percent fewer statements (Optimized Polling); 90 percent fewer statements \
         and 90 percent less processor time (Long Polling Behavior Plan).",
    );
}

fn print_events(plan: &CostPlan, all: &All) {
    let mut claims = columns(plan, &["way of waiting", "from the design", ""]);
    let mut statements = columns(plan, &["way of waiting"]);
    for (way, costs) in all.iter().filter(|(way, _)| !way.polls()) {
        let row = |first: [&str; 3], cells: Vec<String>| {
            [first.map(str::to_owned).to_vec(), cells].concat()
        };
        let predicted = |cost: &WakeCost| {
            way.claims_predicted(cost.shape).map_or("at intervals".to_owned(), format_number)
        };
        let cells = costs.iter().map(predicted).collect();
        claims.row(&row([way.name, way.design, "predicted"], cells));
        let of = |producer: usize, what: fn(&PerEvent) -> f64| -> Vec<String> {
            let events = costs.iter().filter_map(|cost| cost.events);
            events.map(|events| format_number(what(&events[producer]))).collect()
        };
        claims.row(&row(["", "", "pushed elsewhere"], of(0, |event| event.claims)));
        claims.row(&row(["", "", "pushed to the first node"], of(1, |event| event.claims)));
        if !way.aggressive {
            let again = of(0, |event| event.again);
            claims.row(&row(["", "", "pushed elsewhere: repeated claims among them"], again));
            let name = vec![way.name.to_owned()];
            statements.row(&[name, of(0, |event| event.statements)].concat());
        }
    }
    claims.print("Events: claims of all nodes for one message, by nodes x dispatchers");
    print_line(&format!(
        "\nMeans of {} messages to one queue, on which the dispatchers of each node wait, pushed \
         to a node without waiters, and to the first node. A claim that meets a row that another \
         node has locked is repeated, because the other claim may fail. \"compete, aggressive\" \
         also polls meanwhile, until the message is received. Claims of ways that poll depend \
         only on how long a message waits.",
        plan.events
    ));
    statements.print(
        "Events: statements for one message with push, ack and parking again, pushed elsewhere",
    );
}

/// Writes charts of the clusters with four dispatchers per node.
fn write_charts(folder: &Path, all: &All) -> Result<()> {
    let chart = |title: &str, unit, bar: &dyn Fn(&Way, &WakeCost) -> Option<Bar>| {
        let few = |cost: &&WakeCost| cost.shape.dispatchers == 4;
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
        "Idle: statements per second of all nodes, four dispatchers on each of two queues",
        "statements per second",
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
