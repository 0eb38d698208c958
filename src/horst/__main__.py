import sys

from horst.cli import main

sys.exit(main())
