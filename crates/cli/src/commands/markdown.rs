//! The command line's help as a page of Markdown: `docs/cli.md`, which a test keeps fresh.

use crate::Result;
use crate::cli::Cli;
use crate::output::Output;
use clap::CommandFactory;

pub(super) fn run(output: &mut Output) -> Result {
    let mut cli = Cli::command().term_width(100);
    cli.build();
    output.raw("# The command line\n\nGenerated from `crates/cli/src/cli.rs`; a test keeps it fresh.")?;
    output.raw(format_args!("\n```text\n{}\n```", tidy(&cli.render_long_help().to_string())))?;
    for command in cli.get_subcommands_mut().filter(|command| !command.is_hide_set() && command.get_name() != "help") {
        let help = tidy(&command.render_long_help().to_string());
        output.raw(format_args!("\n## thorp {}\n\n```text\n{help}\n```", command.get_name()))?;
    }
    Ok(())
}

/// Without blanks at the ends of lines.
fn tidy(help: &str) -> String {
    help.trim_end().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
