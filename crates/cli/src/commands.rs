//! The commands, one file each.

#[cfg(feature = "lab")]
mod bench;
mod cluster;
mod completions;
#[cfg(feature = "lab")]
mod demo;
mod design;
mod doctor;
mod documents;
#[cfg(feature = "lab")]
mod experiment;
mod find;
mod group;
mod holder;
mod home;
mod invalidate;
#[cfg(feature = "lab")]
mod lab;
mod listing;
mod load;
mod markdown;
#[cfg(feature = "lab")]
mod member;
mod proxy;
mod removal;
mod serve;
#[cfg(feature = "lab")]
mod shop;
mod site;
mod spaces;
mod status;
#[cfg(feature = "lab")]
mod torture;
mod verify;
mod volume;
mod watch;
mod why;

#[cfg(feature = "lab")]
pub(crate) use design::load_file;

use crate::Result;
use crate::cli::Command;
use crate::output::Output;
use crate::stopper::outlive_hang_up;

/// Does what the command line says.
pub(crate) fn run(command: Command, output: &mut Output) -> Result {
    if command.is_server() {
        outlive_hang_up()?;
    }
    match command {
        Command::Serve(args) => serve::run(&args, output),
        Command::Cluster(command) => cluster::run(&command, output),
        Command::Group(args) => group::run(&args, output),
        Command::Proxy(args) => proxy::run(&args, output),
        Command::Holder(args) => holder::run(&args, output),
        Command::Home(args) => home::run(&args, output),
        Command::Verify(args) => verify::run(&args, output),
        Command::Volume(command) => volume::run(&command, output),
        Command::Watch(args) => watch::run(&args, output),
        #[cfg(feature = "lab")]
        Command::Shop(args) => shop::run(&args, output),
        Command::Publish(args) => site::publish(&args, output),
        #[cfg(feature = "fuse")]
        Command::Mount(args) => site::mount::mount(&args, output),
        Command::Site(command) => site::run(&command, output),
        Command::Invalidate(args) => invalidate::run(&args, output),
        Command::Why(args) => why::why(&args, output),
        Command::Who(args) => why::who(&args, output),
        Command::Status(args) => status::run(&args, output),
        Command::Spaces(args) => spaces::run(&args, output),
        Command::Put(args) => documents::put(&args, output),
        Command::Get(args) => documents::get(&args, output),
        Command::Rm(args) => removal::rm(&args, output),
        Command::Ls(args) => listing::ls(&args, output),
        Command::Find(args) => find::run(&args, output),
        Command::Scan(args) => documents::scan(&args, output),
        Command::Load(args) => load::load(&args, output),
        Command::Dump(args) => load::dump(&args, output),
        #[cfg(feature = "lab")]
        Command::Bench(args) => bench::run(&args, output),
        #[cfg(feature = "lab")]
        Command::Experiment(args) => experiment::run(&args, output),
        #[cfg(feature = "lab")]
        Command::Lab(command) => lab::run(&command, output),
        #[cfg(feature = "lab")]
        Command::Torture(args) => torture::run(&args, output),
        Command::Doctor(args) => doctor::run(&args, output),
        #[cfg(feature = "lab")]
        Command::Demo(args) => demo::run(&args, output),
        #[cfg(feature = "lab")]
        Command::Member(args) => member::run(&args),
        #[cfg(feature = "lab")]
        Command::Newcomer(args) => bench::newcomer(&args),
        #[cfg(feature = "lab")]
        Command::Strain => experiment::strain(output),
        Command::Completions(args) => completions::run(&args, output),
        Command::Markdown => markdown::run(output),
    }
}
