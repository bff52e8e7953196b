#!/bin/sh
# Makes a small image under this name: a busybox, and stand-ins for the programs that images of this
# kind bring. ENTRYPOINT and CMD are those of the published images (their Dockerfiles, 2026-11).
set -eu
image=$1
programs="vllm text-generation-launcher llama-server ollama python python3 torchrun accelerate
  axolotl deepspeed ray hf nvidia-smi all_reduce_perf"
set -- --change "ENV PATH=/bin"
case "$image" in
  vllm/vllm-openai*) set -- "$@" --change 'ENTRYPOINT ["vllm","serve"]' ;;
  lmsysorg/sglang*)
    set -- "$@" --change 'ENTRYPOINT ["/opt/nvidia/nvidia_entrypoint.sh"]' \
      --change 'CMD ["/bin/bash"]'
    ;;
  *text-generation-inference*) set -- "$@" --change 'ENTRYPOINT ["/tgi-entrypoint.sh"]' ;;
  ollama/ollama*) set -- "$@" --change 'ENTRYPOINT ["/bin/ollama"]' --change 'CMD ["serve"]' ;;
  *llama.cpp*) set -- "$@" --change 'ENTRYPOINT ["/app/llama-server"]' ;;
esac
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/tmp" "$root/root" "$root/app" "$root/etc" "$root/opt/nccl-tests/build"
chmod 1777 "$root/tmp"
for applet in $(busybox --list); do ln -sf busybox "$root/bin/$applet"; done
cp --remove-destination /bin/busybox "$root/bin/busybox"
cp /usr/lib/rehearsal/stand_in.sh /usr/lib/rehearsal/answer.sh "$root/bin/"
for program in $programs; do ln -sf stand_in.sh "$root/bin/$program"; done
ln -sf /bin/stand_in.sh "$root/app/llama-server"
ln -sf /bin/all_reduce_perf "$root/opt/nccl-tests/build/all_reduce_perf"
cp /usr/lib/rehearsal/mpirun.sh "$root/bin/mpirun"
# Images with an MPI have a client of ssh.
cp /usr/bin/ssh "$root/bin/ssh"
for library in $(ldd /usr/bin/ssh | grep -o '/[^ ]*'); do
  mkdir -p "$root${library%/*}" && cp -L "$library" "$root$library"
done
echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
echo "gpus: a rehearsal pulls nothing: an image of that name is made here: $image"
tar -C "$root" -c . | /usr/bin/docker import "$@" - "$image" >/dev/null
