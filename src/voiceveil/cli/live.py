"""Anonymize live speech: through a pipe, between audio devices, or in a browser.

Each session gets one pseudo-speaker, drawn from a fresh key that is never stored. The delay is 20 ms plus one block; it
is printed on stderr, at the end with the time that blocks took and the number of late ones.
"""

from __future__ import annotations

import argparse
import sys

from voiceveil.apps.live.session import Session, live_system
from voiceveil.apps.web.server import need_web
from voiceveil.cli.options import (
    add_key,
    add_system_parameters,
)
from voiceveil.cli.serving import add_serving_arguments, bound_socket, serve_app
from voiceveil.core.errors import InputError
from voiceveil.systems.contract import Anonymizer
from voiceveil.systems.keys import Key

EXAMPLES = """\
examples:
  voiceveil live --serve                                        open the page that it names, and speak
  voiceveil live --devices                                      list the audio devices
  voiceveil live --input "USB Microphone" --output "Loopback"
  arecord -f S16_LE -r 16000 -c 1 | voiceveil live --stdin --stdout | aplay -f S16_LE -r 16000 -c 1
  ffmpeg -i talk.mp4 -ar 16000 -ac 1 -f s16le - | voiceveil live --stdin --stdout > talk.raw
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--system",
        default="b2",
        metavar="NAME",
        help="b2, b2-2022, b2-2020 or d1, which protect little; veil needs whole recordings (default: b2)",
    )
    add_system_parameters(parser)
    ways = parser.add_argument_group("input and output (one way is required)")
    ways.add_argument("--stdin", action="store_true", help="read raw PCM, mono at 16 kHz, from stdin; with --stdout")
    ways.add_argument("--stdout", action="store_true", help="write raw PCM to stdout")
    ways.add_argument("--input", metavar="DEVICE", help="a number or a part of a name, or `default`; with --output")
    ways.add_argument("--output", metavar="DEVICE", help="device to play the result on, given in the same way")
    ways.add_argument("--devices", action="store_true", help="list the audio devices")
    ways.add_argument("--serve", action="store_true", help="serve a page to speak into, until Ctrl-C")
    parser.add_argument(
        "--format", choices=["s16le", "f32le"], default="s16le", help="sample format of raw PCM (default: s16le)"
    )
    parser.add_argument(
        "--block",
        type=float,
        default=20.0,
        metavar="MS",
        help="length of a block in milliseconds (default: %(default)g)",
    )
    add_serving_arguments(parser)
    parser.add_argument(
        "--sessions",
        type=int,
        default=20,
        metavar="N",
        help="largest number of sessions at once (default: %(default)s)",
    )
    add_key(parser)


def run(args: argparse.Namespace) -> int:
    """Anonymize between the input and output that were asked for."""
    if args.devices:
        from voiceveil.apps.live.devices import list_devices

        print(list_devices())
        return 0
    _check_ways(args)
    system = live_system(args.system, args.set)
    key = _key(args)
    if args.serve:
        return _serve(args, system, key)
    block = _block(args.block, system.rate)
    session = Session(system, key)
    _say(f"{system.name}: latency {1e3 * session.latency:g} ms and one block of {args.block:g} ms; Ctrl-C ends")
    try:
        if args.stdin:
            from voiceveil.apps.live.pipes import run_pipe

            with open(0, "rb", 0, closefd=False) as source, open(1, "wb", 0, closefd=False) as sink:
                run_pipe(session, source, sink, form=args.format, block=block)
        else:
            from voiceveil.apps.live.devices import run_devices

            devices = [None if name == "default" else name for name in (args.input, args.output)]
            dropped = run_devices(session, *devices, block=block)
            _say(f"blocks that the driver dropped: {dropped}")
    finally:
        _say(str(session.timings))
    return 0


def _check_ways(args: argparse.Namespace) -> None:
    """Raise ``InputError`` unless exactly one way of input and output is given."""
    fix = "give --stdin --stdout, or --input DEVICE --output DEVICE, or --serve"
    ways = [args.stdin or args.stdout, args.input or args.output, args.serve]
    if not any(ways):
        raise InputError("no input and output are given", fix=fix)
    if sum(map(bool, ways)) > 1:
        raise InputError("several inputs or outputs are given", fix=fix)
    if args.stdin != args.stdout or (args.input is None) != (args.output is None):
        raise InputError("an input without its output, or an output without its input, is given", fix=fix)


def _key(args: argparse.Namespace) -> Key | None:
    """Return the key to repeat a session with, None for a fresh one."""
    if args.key_file is not None:
        return Key.from_file(args.key_file, namespace=args.key_namespace)
    if args.seed is not None:
        return Key.from_seed(args.seed, namespace=args.key_namespace or "")
    if args.key_namespace is not None:
        raise InputError("--key-namespace is given without a key", fix="add --key-file, or --seed")
    return None


def _block(milliseconds: float, rate: int) -> int:
    if not 1 <= milliseconds <= 1000:
        raise InputError(f"--block {milliseconds:g} is out of range", fix="give 1 to 1000 milliseconds")
    return round(milliseconds * rate / 1000)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _serve(args: argparse.Namespace, system: Anonymizer, key: Key | None) -> int:
    need_web("starlette", "uvicorn", "websockets", extra="live")
    from voiceveil.apps.live.app import LiveApp, largest_message

    if args.sessions < 1:
        raise InputError(f"--sessions {args.sessions} is out of range", fix="give at least 1")
    app = LiveApp(system, key=key, most=args.sessions).starlette()
    with bound_socket(args) as bound:
        serve_app(args, app, bound, f"{system.name}: speak into", message_bytes=largest_message(system))
    return 0
