module flamestream.dev/tests/porcupine

go 1.24

tool flamestream.dev/tests/porcupine

require github.com/anishathalye/porcupine v1.3.1
