"""An RTSP server for tests, by GStreamer: H.264 of a moving test picture. Run by the system's Python, which knows gi.

/usr/bin/python3 rtsp_server.py PORT       # rtsp://127.0.0.1:PORT/camera; prints "ready"
"""

import sys

import gi

gi.require_version("Gst", "1.0")
gi.require_version("GstRtspServer", "1.0")
from gi.repository import GLib, Gst, GstRtspServer  # noqa: E402, versions are chosen first

PIPELINE = (
    "( videotestsrc is-live=true pattern=ball ! video/x-raw,width=96,height=64,framerate=15/1 "
    "! openh264enc gop-size=5 ! h264parse ! rtph264pay name=pay0 pt=96 config-interval=1 )"
)


def main() -> None:
    Gst.init(None)
    for element in ("videotestsrc", "openh264enc", "h264parse", "rtph264pay"):
        if Gst.ElementFactory.find(element) is None:
            sys.exit(f"GStreamer has no {element}")
    if sys.argv[1] == "check":
        return
    server = GstRtspServer.RTSPServer(address="127.0.0.1", service=sys.argv[1])
    factory = GstRtspServer.RTSPMediaFactory(launch=PIPELINE, shared=True)
    server.get_mount_points().add_factory("/camera", factory)
    if not server.attach(None):
        sys.exit(f"port {sys.argv[1]} is taken")
    print("ready", flush=True)
    GLib.MainLoop().run()


if __name__ == "__main__":
    main()
