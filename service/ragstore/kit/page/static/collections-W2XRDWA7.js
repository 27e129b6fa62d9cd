import{h as a}from"./chunk-TWLSZTVD.js";import"./chunk-V6RIWBHI.js";export{a as default};
