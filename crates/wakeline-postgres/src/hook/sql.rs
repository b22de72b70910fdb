//! The SQL statements of webhooks, completed once per store with its schema.

use wakeline_store::hook::{PageOrder, PageRequest};

use crate::Shared;
use crate::connect::Sql;

/// The statement that reads a page of a list, for both directions.
pub(crate) struct PageSql {
    up: Sql,
    down: Sql,
}

impl PageSql {
    fn new(shared: &Shared, template: &str) -> Self {
        let way = |than: &str, order: &str| {
            shared.sql(&template.replace("@than@", than).replace("@order@", order))
        };
        Self { up: way(">", "ASC"), down: way("<", "DESC") }
    }

    /// Returns the statement for ascending keys if `up`, otherwise the one for descending keys.
    pub(crate) fn way(&self, up: bool) -> &Sql {
        if up { &self.up } else { &self.down }
    }
}

/// Returns whether a page is read by ascending keys.
pub(crate) fn goes_up<K>(page: &PageRequest<K>) -> bool {
    let backwards = page.backwards && page.after.is_some();
    (page.order == PageOrder::Ascending) != backwards
}

macro_rules! statements {
    ($($name:ident),* ; $($page:ident),* $(,)?) => {
        /// The statements of webhooks.
        pub(crate) struct HookStatements {
            $(pub(crate) $name: Sql,)*
            $(pub(crate) $page: PageSql,)*
        }

        impl HookStatements {
            /// Completes the statements with the store's schema.
            pub(crate) fn new(shared: &Shared) -> Self {
                Self {
                    $($name: shared.sql(include_str!(
                        concat!("../../sql/queries/hook_", stringify!($name), ".sql")
                    )),)*
                    $($page: PageSql::new(shared, include_str!(
                        concat!("../../sql/queries/hook_", stringify!($page), ".sql")
                    )),)*
                }
            }
        }
    };
}

statements![
    application, application_create, application_delete, application_stop,
    application_update, attempt, background, cancel,
    claim, claim_polled, deliveries_to, emit, endpoint, enforced, expire, endpoint_create,
    endpoint_delete, endpoint_update, event_type, event_type_delete, event_type_put,
    expunge_payload, expunge_response, extend, fan_out, job, job_start, message, pulled, release,
    resend, secret_rotate, quarantine, secrets, settle, stats, sweep;
    applications, attempts, deliveries, endpoints, event_types, messages,
];
